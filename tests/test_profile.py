"""Profiles: what is recorded on the CPU, the record as a file, the trace, predictions, the sentences about cliffs."""

from __future__ import annotations

import dataclasses
import io
import json
import time

import numpy as np
import onnx
import pytest
from onnx import helper
from rich.console import Console

import headrace
from headrace.bench.cases import inverse_stft_weight
from headrace.errors import HeadraceError, InputError
from headrace.explanation import explain_model
from headrace.profile import Event, Peaks, Profile, load_profile
from headrace.profile import peaks as peaks_module
from headrace.profile.cliffs import find_cliffs
from headrace.profile.peaks import cache_file, measured_peaks
from headrace.profile.predict import MACHINES, machine
from headrace.profile.record import TRACKS
from headrace.profile.table import differences, print_comparison

from .models import model_of

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _known_peaks(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(peaks_module, "RUNS", 1)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def convolutions():
    """Conv, Relu, Conv, and a Softmax at the end."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="rectifier"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="second", strides=[2, 2]),
        helper.make_node("Softmax", ["c"], ["y"], name="softmax", axis=1),
    ]
    return model_of(nodes, {"x": ["n", 3, "h", "w"]}, ["y"], {"w1": random(16, 3, 3, 3), "w2": random(8, 16, 3, 3)})


def inverse_stft(frames=800):
    node = helper.make_node("ConvTranspose", ["s", "w"], ["y"], name="istft", strides=[64])
    scaled = helper.make_node("Mul", ["x", "gain"], ["s"], name="gain")
    weights = {"w": inverse_stft_weight(256), "gain": np.float32([0.5])}
    return model_of([scaled, node], {"x": [2, 258, frames]}, ["y"], weights)


def profiled(model, feeds, runs=3, **options):
    with headrace.InferenceSession(model.SerializeToString(), "cpu", **options) as session:
        return session.profile(feeds, runs)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return profiled(convolutions(), {"x": random(2, 3, 40, 52)})


def test_every_node_of_the_model_is_accounted_for(profile):
    assert [n.name for n in profile.graph] == ["first", "rectifier", "second", "softmax"]
    for name in ("first", "second", "softmax"):
        assert any(name in e.nodes for e in profile.events), name
    fates = {n.name: n for n in profile.graph}
    assert fates["first"].fate == "operator" and fates["first"].events
    for node in profile.graph:
        assert all(node.name in profile.events[i].nodes for i in node.events)


def test_nodes_without_a_name_and_nodes_within_an_if_are_named():
    """By their operator and first output, as in errors and notes."""
    branch = lambda op, name: helper.make_graph(  # noqa: E731
        [helper.make_node(op, ["b"], [name])], name, [], [onnx.ValueInfoProto(name=name)]
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("ReduceSum", ["b"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=branch("Exp", "t"), else_branch=branch("Tanh", "e")),
    ]
    model = model_of(nodes, {"x": [1, 3, "t"]}, ["y"], {"w": random(4, 3, 5), "zero": np.float32(0)})
    events = [e for e in profiled(model, {"x": random(1, 3, 900)}).events if e.kind in ("operator", "control")]
    assert all(len(e.nodes) == 1 for e in events)
    found = {e.nodes[0] for e in events}
    assert {"Conv→a", "Erf→b", "ReduceSum→s", "Greater→positive", "If→y"} <= found
    assert found & {"Exp→t", "Tanh→e"}


def test_operations_and_bytes_are_those_of_the_convolutions(profile):
    first = sum(e.flops for e in profile.events if "first" in e.nodes)
    second = sum(e.flops for e in profile.events if "second" in e.nodes)
    assert first == 2 * 2 * 16 * 40 * 52 * 27
    assert second == 2 * 2 * 8 * 19 * 25 * 144
    assert all(e.bytes > 0 for e in profile.work)


def test_times_fit_into_the_run(profile):
    assert profile.runs == 3 and profile.p10_ms <= profile.ms <= profile.p90_ms
    assert sum(e.ms for e in profile.work) <= 1.5 * profile.p90_ms
    for e in profile.events:
        assert 0 <= e.p10_ms <= e.ms <= e.p90_ms
        assert -0.1 <= e.start_ms <= profile.p90_ms + 1
        assert e.share is None or 0 < e.share <= 1


def test_a_step_carries_the_names_of_the_nodes_that_it_replaces():
    found = profiled(inverse_stft(), {"x": random(2, 258, 800)})
    steps = [e for e in found.events if e.kind == "step"]
    assert steps and all("istft" in e.nodes for e in steps)
    assert any(e.kind == "operator" and e.nodes == ("gain",) for e in found.events)
    assert {n.name: n.fate for n in found.graph} == {"gain": "operator", "istft": "step"}


def test_a_profile_leaves_no_files_and_the_session_runs_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    x = {"x": random(2, 258, 800)}
    with headrace.InferenceSession(inverse_stft().SerializeToString(), "cpu") as session:
        before = session.run(None, x)
        session.profile(x, 2)
        session.profile(x, 1)
        np.testing.assert_array_equal(session.run(None, x)[0], before[0])
    assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == []


def test_cold_start_is_split_and_its_parts_fit_in_the_whole():
    start = time.perf_counter()
    with headrace.InferenceSession(inverse_stft().SerializeToString(), "cpu") as session:
        session.run(None, {"x": random(2, 258, 800)})
        whole = (time.perf_counter() - start) * 1e3
        found = session.profile({"x": random(2, 258, 800)}, 1)
    assert list(found.cold_ms) == ["load", "optimize", "lower", "compile", "first run"]
    assert all(ms >= 0 for ms in found.cold_ms.values())
    assert 0 < sum(found.cold_ms.values()) <= whole


def test_nothing_is_recorded_in_a_plain_run(monkeypatch):
    def refuse(*_):
        raise AssertionError("a plain run recorded a span")

    with headrace.InferenceSession(inverse_stft().SerializeToString(), "cpu") as session:
        monkeypatch.setattr("headrace.backends.spans.Span.__init__", refuse)
        session.run(None, {"x": random(2, 258, 800)})
        with pytest.raises(HeadraceError, match="recorded a span"):
            session.profile({"x": random(2, 258, 800)}, 1)


@pytest.mark.parametrize("runs", [0, -1, 1.5, True, "3", None])
def test_runs_must_be_a_positive_integer(runs):
    with (
        headrace.InferenceSession(inverse_stft().SerializeToString(), "cpu") as session,
        pytest.raises(InputError, match="runs"),
    ):
        session.profile({"x": random(2, 258, 800)}, runs)


def test_feeds_are_checked_as_in_run():
    with headrace.InferenceSession(inverse_stft().SerializeToString(), "cpu") as session:
        for feeds in ({}, {"x": random(2, 258)}, {"z": random(1)}, {"x": np.zeros((2, 258, 800))}):
            with pytest.raises(InputError):
                session.profile(feeds, 1)
    with pytest.raises(HeadraceError, match="closed"):
        session.profile({"x": random(2, 258, 800)}, 1)


# --- the record as a file


def test_a_record_is_read_back_as_it_was(profile, tmp_path):
    profile.save(tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "3", "null", '{"format": 1}', '{"format": 99}', '{"format": 1, "events": [{"a": 1}]}', "\0"],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        load_profile(tmp_path / "bad.json")


def test_files_that_cannot_be_read_or_written_are_input_errors(profile, tmp_path):
    with pytest.raises(InputError, match="missing"):
        load_profile(tmp_path / "missing.json")
    for write in (profile.save, profile.save_trace, profile.save_html):
        with pytest.raises(InputError, match="nowhere"):
            write(tmp_path / "nowhere" / "file")


def test_the_trace_is_in_the_trace_event_format(profile, tmp_path):
    profile.save_trace(tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    check_trace(trace)
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(profile.events)


def check_trace(trace):
    """The rules of the format that viewers rely on."""
    assert isinstance(trace["traceEvents"], list) and trace["displayTimeUnit"] in ("ms", "ns")
    threads = {}
    for e in trace["traceEvents"]:
        assert isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert isinstance(e["ts"], int | float)
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name", "thread_sort_index")
            if e["name"] == "thread_name":
                threads[e["tid"]] = e["args"]["name"]
        else:
            assert e["ph"] == "X" and e["dur"] >= 0 and isinstance(e["cat"], str) and isinstance(e["args"], dict)
            assert e["tid"] in threads, "an event on a thread without a name"
    assert set(threads.values()) == set(TRACKS)


# --- comparing


def test_differences_are_matched_by_nodes_and_sorted(profile):
    slower = dataclasses.replace(
        profile,
        events=tuple(dataclasses.replace(e, ms=e.ms + 5) if "second" in e.nodes else e for e in profile.events),
    )
    rows = differences(slower, profile)
    assert "second" in rows[0][0] and rows[0][2] - rows[0][1] >= 5
    without = dataclasses.replace(profile, events=tuple(e for e in profile.events if "softmax" not in e.nodes))
    assert any("softmax" in nodes and now is None for nodes, _, now in differences(without, profile))


# --- peaks


def test_peaks_are_measured_once_and_a_broken_cache_is_measured_again(tmp_path):
    calls = []

    def measure(software):
        calls.append(software)
        return Peaks(10.0 * len(calls), 2.0)

    assert measured_peaks("a card", True, measure) == Peaks(10.0, 2.0)
    assert measured_peaks("a card", True, measure) == Peaks(10.0, 2.0) and len(calls) == 1
    assert measured_peaks("another", True, measure) == Peaks(20.0, 2.0)
    for broken in ("", "{", "[1]", '{"a card": 3}', '{"x": {"gflops": 1}}'):
        cache_file().write_text(broken)
        before = len(calls)
        measured_peaks("a card", True, measure)
        assert len(calls) == before + 1, broken


@pytest.mark.parametrize(("flops", "moved"), [(1e9, 1e6), (1e6, 1e9), (0, 1e9), (1e9, 0)])
def test_the_roofline_is_the_slower_of_both(flops, moved):
    peaks = Peaks(gflops=100, gbs=10)
    assert peaks.least_ms(flops, moved) == pytest.approx(max(flops / 1e8, moved / 1e7))
    assert peaks.bound(flops, moved) == ("compute" if flops / 1e8 >= moved / 1e7 else "memory")
    assert Peaks().least_ms(flops, moved) == 0 and Peaks().bound(flops, moved) == ""


# --- predictions


def test_predictions_are_never_faster_than_the_roofline_and_say_what_they_are(tmp_path):
    (tmp_path / "m.onnx").write_bytes(convolutions().SerializeToString())
    times = {}
    for name, m in MACHINES.items():
        found = explain_model(tmp_path / "m.onnx", {"n": 1, "h": 64, "w": 64}, "cpu", name).prediction
        assert found is not None and found.runs == 0 and found.adapter == m.name
        kernels = [e for e in found.events if e.kind == "kernel"]
        assert kernels and {"first", "second"} <= {n for e in kernels for n in e.nodes}
        for e in kernels:
            assert e.ms >= max(e.flops / m.gflops, e.bytes / m.gbs) / 1e6
        times[name] = found.ms
    assert times["rtx4090"] < times["m1"] and times["rtx4090"] < times["igpu"]


def test_a_machine_from_a_file(tmp_path):
    (tmp_path / "a.json").write_text('{"gflops": 500, "gbs": 20.5}')
    (tmp_path / "b.toml").write_text('name = "card"\ngflops = 500\ngbs = 20.5\nlaunch_us = 1\n')
    assert machine(str(tmp_path / "a.json")).name == "a"
    assert machine(str(tmp_path / "b.toml")).launch_us == 1 and machine(str(tmp_path / "b.toml")).name == "card"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "3", "{}", '{"gflops": 1}', '{"gflops": 0, "gbs": 1}', '{"gflops": "1", "gbs": 1}',
        '{"gflops": true, "gbs": 1}', '{"gflops": 1, "gbs": 1, "speed": 3}', '{"gflops": NaN, "gbs": 1}',
        '{"gflops": Infinity, "gbs": 1}', '{"gflops": 1, "gbs": 1e999}', '{"gflops": 1e-300, "gbs": 1}',
        '{"gflops": 1, "gbs": 1, "launch_us": -1}', '{"gflops": 1, "gbs": 1, "wait_us": Infinity}',
        '{"gflops": 1, "gbs": 1, "host_gbs": 0}', '{"gflops": 1, "gbs": 1' + "0" * 400 + "}",
    ],
)  # fmt: skip
def test_a_bad_machine_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        machine(str(tmp_path / "bad.json"))


@pytest.mark.parametrize("fields", ["launch_us", "wait_us", "launch_us wait_us"])
def test_a_machine_may_launch_and_answer_at_once(fields, tmp_path):
    times = dict.fromkeys(fields.split(), 0)
    (tmp_path / "ideal.json").write_text(json.dumps({"gflops": 1e9, "gbs": 1e9, "host_gbs": 1e9, **times}))
    (tmp_path / "m.onnx").write_bytes(convolutions().SerializeToString())
    found = explain_model(tmp_path / "m.onnx", {"n": 2, "h": 8, "w": 9}, "cpu", str(tmp_path / "ideal.json"))
    assert "Nothing was run" in str(found.prediction) and found.prediction.ms > 0


@pytest.mark.parametrize("name", ["", "rtx", "m2", "missing.json", "missing.toml"])
def test_an_unknown_machine_is_refused(name):
    with pytest.raises(InputError, match="target"):
        machine(name)


# --- cliffs


def made(*events, ms=None, notes=()):
    """A profile that holds just these events."""
    at, placed = 0.0, []
    for e in events:
        placed.append(dataclasses.replace(e, start_ms=at))
        at += e.ms
    return Profile(
        model="m", device="webgpu", adapter="card", software=False, headrace="0", date="", machine={}, inputs={},
        runs=1, ms=ms or at, p10_ms=at, p90_ms=at, plain_ms=at, cold_ms={}, peaks=Peaks(1000, 100),
        events=tuple(placed), cliffs=(), notes=tuple(notes),
    )  # fmt: skip


def event(kind, ms, nodes=(), **more):
    track = {"kernel": "device", "readback": "copy", "upload": "copy"}.get(kind, "host")
    plain = Event(kind, track, more.pop("name", kind), nodes, (), 0.0, ms, ms, ms, ms, 0, 0.0)
    return dataclasses.replace(plain, **more)


def test_a_readback_in_mid_graph_comes_first_however_short_it_is():
    found = find_cliffs(
        made(
            event("kernel", 500.0, ("heavy",), share=0.01, bound="compute", flops=1e6),
            event("wait", 500.0, before_host=True),
            event("readback", 0.001, tensors=("mask",), bytes=625, before_host=True),
            event("host step", 0.01, ("cast",), name="Cast", reason="asked for by host_nodes"),
            event("kernel", 1.0, ("last",), share=0.9),
            event("readback", 3.0, tensors=("y",), bytes=10**8),
        )
    )
    assert [c.kind for c in found] == ["readback", "host step", "far from roofline"]
    first = found[0]
    assert "625 bytes" in first.text and "'mask'" in first.text and "'cast'" in first.text
    assert "host_nodes" in first.text and first.nodes == ("cast",)


def test_a_kernel_far_from_the_roofline_is_told_with_the_refusal():
    refusal = {"node": "slow", "text": "not a DFT basis (off by 0.3)", "refused": True}
    slow = event("kernel", 80.0, ("slow",), name="conv", share=0.03, bound="compute", flops=2.4e9, bytes=10**6)
    found = find_cliffs(made(slow, event("kernel", 20.0, ("fine",), share=0.8), notes=[refusal]))
    assert [c.kind for c in found] == ["far from roofline"]
    assert "3 %" in found[0].text and "not a DFT basis" in found[0].text and "GFLOP/s" in found[0].text
    assert found[0].ms == pytest.approx(80 * 0.97)


def test_a_kernel_that_dominates_is_named_with_what_was_done_to_it():
    big, rest = event("kernel", 60.0, ("big",), share=0.6), event("kernel", 40.0, ("rest",), share=0.6)
    assert [c.nodes for c in find_cliffs(made(big, rest))] == [("big",)]
    done = {"node": "big", "text": "run as an FFT", "refused": False}
    (cliff,) = find_cliffs(made(big, rest, notes=[done]))
    assert "60 %" in cliff.text and "rewritten already: run as an FFT" in cliff.text


def test_what_costs_little_is_no_cliff():
    small = event("kernel", 0.5, ("small",), share=0.01)
    rest = [event("kernel", 33.0, (name,), share=0.7) for name in "abc"]
    assert find_cliffs(made(small, *rest)) == []


def test_dispatches_of_one_launch_are_one_piece_of_work():
    parts = [event("kernel", 10.0, ("big",), pipeline=3, share=0.5, flops=5e9, bytes=1000) for _ in range(4)]
    other = event("kernel", 30.0, ("other",), pipeline=3, share=0.9)
    found = made(*parts, other, parts[0])
    (first, big), (_, rest), (last, again) = found.pieces  # not merged: another piece stands between
    assert (first, big.parts, big.ms, big.flops, big.bytes, big.share) == (0, 4, 40.0, 2e10, 4000, 0.5)
    assert rest.nodes == ("other",) and last == 5 and again.parts == 1
    assert "57 % of the work (40 ms in 4 dispatches)" in find_cliffs(made(*parts, other))[0].text


def looped():
    """A Loop over three turns with a product in it, a node before and one behind."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"], name="inside"),
            helper.make_node("Identity", ["c"], ["go"], name="go on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("c", 9, []),
            helper.make_tensor_value_info("state", 1, [64, 64]),
        ],
        [helper.make_tensor_value_info("go", 9, []), helper.make_tensor_value_info("next", 1, [64, 64])],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="before"),
        helper.make_node("Loop", ["turns", "", "a"], ["b"], name="loop", body=body),
        helper.make_node("Neg", ["b"], ["y"], name="behind"),
    ]
    constants = {"turns": np.array(3, np.int64), "w": random(64, 64)}
    return model_of(nodes, {"x": [64, 64]}, ["y"], constants)


def test_a_loop_is_not_counted_beside_the_nodes_in_it():
    found = profiled(looped(), {"x": random(64, 64)})
    assert "Loop" not in {e.name for e in found.work}
    (inside,) = [e for _, e in found.pieces if "inside" in e.nodes]
    assert inside.parts == 3
    assert sum(e.ms for e in found.work) <= 1.2 * found.p90_ms
    assert {n.name: bool(n.events) for n in found.graph} == {"before": True, "loop": True, "behind": True}


def test_many_small_launches_are_one_cliff():
    small = [event("kernel", 0.01, (f"n{i}",), share=0.02, pipeline=0) for i in range(300)]
    (cliff,) = find_cliffs(made(*small, event("kernel", 1.0, ("big",), share=0.8)))
    assert "300 pieces of work" in cliff.text and cliff.ms == pytest.approx(300 * 0.01 * 0.98)


def test_a_device_can_do_what_it_was_seen_to_do(monkeypatch):
    monkeypatch.setattr("headrace.profile.measure.measured_peaks", lambda *_: Peaks(1e-3, 1e-3))
    found = profiled(convolutions(), {"x": random(2, 3, 64, 64)})
    longest = max((e for e in found.work if e.flops), key=lambda e: e.ms)
    assert found.peaks.gflops >= 0.2 * longest.gflops


def test_a_profile_prints_as_tables_and_shows_itself_briefly(profile):
    assert "does the work of" in str(profile) and "second" in str(profile)
    assert repr(profile).startswith("Profile(") and len(repr(profile)) < 200


@pytest.mark.parametrize("name", ["/*script*/", "/*style*/", "/*profile*/null", "</script>", "a\"b'c`d${e}"])
def test_a_name_that_looks_like_a_part_of_the_page_stays_a_name(profile, name):
    from headrace.profile.report import html

    text = html(dataclasses.replace(profile, model=name))
    assert text.count("<script>") == 1 and text.count("</script>") == 1 and text.endswith("</html>\n")
    data = text.split("const profile = ", 1)[1].split(";\n", 1)[0]
    assert json.loads(data)["model"] == name


# --- damaged files, strings, odd arguments

WRONG = ("abc", None, [1], {"a": 1}, True)  # each is wrong for most fields


def paths_in(data, at=()):
    """The way to every value in nested JSON."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from paths_in(value, (*at, key))


def put(data, path, value):
    *way, last = path
    for key in way:
        data = data[key]
    data[last] = value


def test_a_record_with_a_wrong_value_is_refused_or_can_be_compared(profile, tmp_path):
    text, refused = json.dumps(profile.as_dict()), set()
    for path in paths_in(json.loads(text)):
        for wrong in WRONG:
            data = json.loads(text)
            put(data, path, wrong)
            (tmp_path / "bad.json").write_text(json.dumps(data))
            try:
                old = load_profile(tmp_path / "bad.json")
            except InputError as error:
                assert "bad.json" in str(error)
                refused.add(path)
                continue
            print_comparison(profile, old, Console(file=io.StringIO(), markup=False))
            old.save_trace(tmp_path / "trace.json")
    assert {("ms",), ("events",), ("events", 0, "nodes"), ("cold_ms", "load"), ("inputs", "x", 0)} <= refused


@pytest.mark.parametrize("text", ['{"format": 1, "ms": 1' + "0" * 400 + "}", "[" * 100_000, '{"format": 1, "new": 1}'])
def test_a_record_out_of_bounds_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        load_profile(tmp_path / "bad.json")


@pytest.mark.parametrize("field", ["gflops", "gbs"])
@pytest.mark.parametrize("wrong", ["a", None, [1], {}, True, -1, float("nan"), float("inf")])
def test_peaks_that_are_no_rates_are_measured_again(field, wrong):
    measured_peaks("a card", True, lambda _: Peaks(10.0, 2.0))
    kept = json.loads(cache_file().read_text())
    for values in kept.values():
        values[field] = wrong
    cache_file().write_text(json.dumps(kept))
    assert measured_peaks("a card", True, lambda _: Peaks(3.0, 4.0)) == Peaks(3.0, 4.0)
    assert measured_peaks("a card", True, lambda _: Peaks(5.0, 6.0)) == Peaks(3.0, 4.0)


@pytest.mark.parametrize("path", [None, 3, 1.5, b"p.json", ["p"], "", "a\0b"])
def test_paths_that_name_no_file_are_input_errors(profile, path):
    for call in (profile.save, profile.save_trace, profile.save_html, load_profile):
        with pytest.raises(InputError, match="file"):
            call(path)


STRING, FLOAT = onnx.TensorProto.STRING, onnx.TensorProto.FLOAT


@pytest.mark.parametrize(
    ("op", "inputs", "kind", "attributes", "moved"),
    [
        ("Identity", ["x"], STRING, {}, 0),
        ("Concat", ["x", "c", "x"], STRING, {"axis": 0}, 0),
        ("Cast", ["x"], FLOAT, {"to": STRING}, 3 * 2 * 4),
    ],
)
def test_strings_count_as_no_bytes(op, inputs, kind, attributes, moved, tmp_path):
    node = helper.make_node(op, inputs, ["y"], name="text", **attributes)
    x, y = helper.make_tensor_value_info("x", kind, ["n", 2]), helper.make_tensor_value_info("y", STRING, None)
    constant = helper.make_tensor("c", STRING, [1, 2], [b"q", b""])
    graph = helper.make_graph([node], "g", [x], [y], [constant] if "c" in inputs else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    words = np.array([["a", "bc"], ["", "ü"], ["d", "e"]], object)
    found = profiled(model, {"x": words if kind == STRING else random(3, 2)})
    assert [n.name for n in found.graph] == ["text"] and all(e.bytes == moved for e in found.events)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (cost,) = explain_model(tmp_path / "m.onnx", {"n": 3}, "cpu").costs
    assert cost.bytes == moved and cost.output[1] == 2
    assert explain_model(tmp_path / "m.onnx", {"n": 3}, "cpu", "m1").on_device.host


def test_a_printed_profile_has_names_as_they_are(profile):
    strange = "[/x][bold]y[/i] :warning:"
    events = tuple(dataclasses.replace(e, nodes=(strange,)) for e in profile.events)
    for runs in (0, 3):
        text = str(dataclasses.replace(profile, model=strange, adapter=f"a{strange}", events=events, runs=runs))
        assert f"a{strange}" in text and text.count("[/x]") > 1


def test_runs_may_be_any_integer():
    with headrace.InferenceSession(inverse_stft().SerializeToString(), "cpu") as session:
        for runs in (np.int64(2), np.uint8(2)):
            assert session.profile({"x": random(2, 258, 800)}, runs).runs == 2


def test_host_nodes_take_the_names_that_a_profile_prints(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"], name="minus")]
    source = model_of(nodes, {"x": [2, 3]}, ["y"], {}).SerializeToString()
    with headrace.InferenceSession(source, "cpu") as session:
        printed = [n.name for n in session.profile({"x": random(2, 3)}, 1).graph]
    assert printed == ["Relu→a", "minus"]
    (tmp_path / "m.onnx").write_bytes(source)
    for name in (*printed, "a", "y"):
        headrace.InferenceSession(source, "cpu", host_nodes=[name]).close()
        (host,) = explain_model(tmp_path / "m.onnx", {}, "cpu", "m1", [name]).on_device.host
        assert host.op_type == ("Relu" if "a" in name else "Neg")
    for name in ("Relu→y", "Neg→y", "Relu", ""):
        with pytest.raises(InputError, match="no node is called"):
            headrace.InferenceSession(source, "cpu", host_nodes=[name])
