"""Profiles on WebGPU: device times, copies and waits, host steps, and the story of DETR's mask."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from onnx import helper
from tests.detr import MASK_NODES, detr, feeds
from tests.models import model_of
from tests.test_profile import check_trace

import headrace
from headrace.backends.spans import Recorder
from headrace.backends.webgpu import stamps
from headrace.explanation import explain_model
from headrace.profile import load_profile
from headrace.profile import peaks as peaks_module
from headrace.profile.trace import trace_events

pytestmark = [pytest.mark.webgpu, pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")]
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True, scope="module")
def _quick_peaks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(peaks_module, "RUNS", 1)
        yield


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def chain(nodes=3):
    """`nodes` matrix products, each with its own rectifier."""
    made, weights, at = [], {}, "x"
    for i in range(nodes):
        out = "y" if i == nodes - 1 else f"r{i}"
        made += [
            helper.make_node("MatMul", [at, f"w{i}"], [f"m{i}"], name=f"product{i}"),
            helper.make_node("Relu", [f"m{i}"], [out], name=f"rectifier{i}"),
        ]
        weights[f"w{i}"] = random(48, 48)
        at = out
    return model_of(made, {"x": [20, 48]}, ["y"], weights)


def session_of(model, **options):
    return headrace.InferenceSession(model.SerializeToString(), "webgpu", **options)


@pytest.mark.parametrize("timestamps", [True, False], ids=["timestamps", "waits"])
def test_one_span_for_each_dispatch_in_order_inside_the_run(timestamps, monkeypatch):
    with session_of(chain()) as session:
        executable = session._executable
        if not timestamps:
            target = dataclasses.replace(executable.device.target, timestamps=False)
            monkeypatch.setattr(executable.device, "target", target)
        x = {"x": random(20, 48)}
        plain = session.run(None, x)[0]
        found = session.profile(x, 3)
        kernels = [e for e in found.events if e.kind == "kernel"]
        plan = session.plan
        assert [(e.nodes, e.flops, e.bytes) for e in kernels] == [(d.nodes, d.flops, d.bytes) for d in plan.dispatches]
        assert {f"product{i}" for i in range(3)} <= {n for e in kernels for n in e.nodes}
        for e in kernels:
            assert (
                e.track == "device" and e.ms > 0 and e.start_ms >= -0.01 and e.start_ms + e.span_ms <= 2 * found.p90_ms
            )
        starts = [e.start_ms for e in kernels]
        assert starts == sorted(starts)
        np.testing.assert_array_equal(session.run(None, x)[0], plain)


def test_recording_changes_no_value():
    with session_of(chain()) as session:
        x, recorder = {"x": random(20, 48)}, Recorder()
        want = session.run(None, x)[0]
        got = session._executable.run(["y"], x, recorder=recorder)[0]
        np.testing.assert_array_equal(got, want)
        assert {s.kind for s in recorder.finish()} == {"upload", "record", "submit", "wait", "readback", "kernel"}


def test_copies_carry_their_bytes_and_tensors():
    with session_of(chain()) as session:
        events = session.profile({"x": random(20, 48)}, 1).events
    sizes = {e.kind: (e.bytes, e.tensors) for e in events if e.track == "copy"}
    assert sizes == {"upload": (20 * 48 * 4, ("x",)), "readback": (20 * 48 * 4, ("y",))}


def test_more_dispatches_than_one_query_set_holds(monkeypatch):
    monkeypatch.setattr(stamps, "MOST_QUERIES", 4)
    with session_of(chain(7)) as session:
        found = session.profile({"x": random(20, 48)}, 1)
    kernels = [e for e in found.events if e.kind == "kernel"]
    assert len(kernels) >= 7 and all(e.ms > 0 for e in kernels)


@pytest.mark.parametrize("seed", range(20))
def test_device_times_are_put_between_submit_and_wait_where_they_fit(seed):
    rng = np.random.default_rng(seed)
    ns = np.sort(rng.integers(0, 10**6, 12)).reshape(6, 2)
    submitted = int(rng.integers(10**9, 10**10))
    done = submitted + int(ns.max() - ns.min()) + int(rng.integers(0, 10**6))
    placed = ns + stamps.aligned(ns, submitted, done)
    assert placed.min() >= submitted and placed.max() == done
    tight = ns + stamps.aligned(ns, submitted, submitted + 1)  # clocks that disagree: never before the submit
    assert tight.min() == submitted


def test_host_steps_are_timed_and_told_with_their_reason():
    with session_of(chain(), host_nodes=["product1"]) as session:
        found = session.profile({"x": random(20, 48)}, 2)
    (step,) = [e for e in found.events if e.kind == "host step"]
    assert step.nodes == ("product1",) and step.name == "MatMul" and "host_nodes" in step.reason and step.ms > 0
    assert [e.before_host for e in found.events if e.kind == "readback"] == [True, False]
    assert [c.kind for c in found.cliffs][:2] == ["readback", "host step"]
    assert "'product1'" in found.cliffs[0].text
    assert next(n for n in found.graph if n.name == "product1").fate == "host step"


def test_a_refused_operator_is_told_with_why():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("NonZero", ["a"], ["y"], name="places"),
    ]
    model = model_of(nodes, {"x": [6, 8]}, ["y"], {"w": random(8, 5)}, output_dtype=7)
    with session_of(model) as session:
        found = session.profile({"x": random(6, 8)}, 1)
    assert found.cliffs[0].kind == "readback" and "'places'" in found.cliffs[0].text
    assert "Reason: " in found.cliffs[0].text


def test_cold_start_has_every_phase():
    with session_of(chain(5)) as session:
        cold = session.profile({"x": random(20, 48)}, 1).cold_ms
    assert cold["lower"] > 0 and cold["compile"] > 0 and all(ms >= 0 for ms in cold.values())


@pytest.fixture(scope="module")
def mask_on_host():
    with session_of(detr(), host_nodes=MASK_NODES) as session:
        return session.profile(feeds(96, 128), 2)


@pytest.mark.slow
def test_the_first_cliff_of_detr_with_its_mask_on_the_host_is_that_readback(mask_on_host, tmp_path):
    first = mask_on_host.cliffs[0]
    assert first.kind == "readback" and set(first.nodes) & set(MASK_NODES)
    readback = mask_on_host.events[first.event]
    assert readback.kind == "readback" and readback.bytes < 1024 and f"{readback.bytes} bytes" in first.text
    assert MASK_NODES[0] in first.text and "host_nodes" in first.text
    kinds = [c.kind for c in mask_on_host.cliffs]
    assert kinds == sorted(
        kinds, key=lambda k: ["readback", "host step"].index(k) if k in ("readback", "host step") else 2
    )


@pytest.mark.slow
def test_detr_with_its_mask_on_the_host_as_record_and_trace(mask_on_host, tmp_path):
    mask_on_host.save(tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == mask_on_host
    trace = trace_events(mask_on_host)
    check_trace(trace)
    names = {m["tid"]: m["args"]["name"] for m in trace["traceEvents"] if m["name"] == "thread_name"}
    device = [e for e in trace["traceEvents"] if e["ph"] == "X" and names[e["tid"]] == "device"]
    assert len(device) > 150
    waits = [e for e in trace["traceEvents"] if e.get("cat") == "wait"]
    for kernel in device:  # the clocks are aligned: the device works before the host's last wait is over
        assert kernel["ts"] <= max(w["ts"] + w["dur"] for w in waits)


@pytest.mark.slow
def test_detr_untouched_has_no_host_step_and_no_readback_in_mid_graph():
    with session_of(detr(), fallback=False) as session:
        found = session.profile(feeds(96, 128), 1)
    assert not {"readback", "host step"} & {c.kind for c in found.cliffs}
    assert [e.kind for e in found.events].count("submit") == 1


def test_a_plain_run_makes_no_query_and_no_span(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a plain run recorded something")

    with session_of(chain()) as session:
        x = {"x": random(20, 48)}
        session.run(None, x)
        monkeypatch.setattr("headrace.backends.spans.Span.__init__", refuse)
        monkeypatch.setattr("headrace.backends.webgpu.player.Stamps", refuse)
        session.run(None, x)
        with pytest.raises(AssertionError, match="recorded something"):
            session.profile(x, 1)


def test_explain_and_a_run_see_what_a_waiting_loop_takes_from_outside(tmp_path):
    """The Loop waits for a host node, and its body reads a tensor that the device has computed before."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "outer"], ["next"], name="inside"),
            helper.make_node("Identity", ["c"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("c", 9, []),
            helper.make_tensor_value_info("state", 1, [6, 5]),
        ],
        [helper.make_tensor_value_info("go", 9, []), helper.make_tensor_value_info("next", 1, [6, 5])],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["outer"], name="before"),
        helper.make_node("Relu", ["x"], ["r"], name="asked"),
        helper.make_node("MatMul", ["r", "w"], ["start"], name="waiting"),
        helper.make_node("Loop", ["turns", "", "start"], ["y"], name="loop", body=body),
    ]
    w = random(8, 5)
    model = model_of(nodes, {"x": [6, 8]}, ["y"], {"w": w, "turns": np.array(3, np.int64)})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = explain_model(tmp_path / "m.onnx", {}, "webgpu", "m1", ["asked"])
    assert {"before", "waiting", "inside"} <= {n for e in found.prediction.events for n in e.nodes}
    x = random(6, 8)
    with session_of(model, host_nodes=["asked"]) as session:
        (got,) = session.run(None, {"x": x})
        (step,) = session.plan.host_steps
    np.testing.assert_allclose(got, np.maximum(x, 0) @ w + 3 * (x @ w), atol=1e-4)
    assert step.reads == ("x",)


def test_the_cold_start_is_that_of_the_first_run_whatever_ran_since():
    node = helper.make_node("Relu", ["x"], ["y"], name="rectifier")
    with session_of(model_of([node], {"x": ["n", 4]}, ["y"])) as session:
        session.run(None, {"x": random(3, 4)})
        cold = session.profile({"x": random(3, 4)}, 1).cold_ms
        for n in range(4, 12):
            session.run(None, {"x": random(n, 4)})
        assert session.profile({"x": random(3, 4)}, 1).cold_ms == cold
