"""The page of a profile, in Chromium and without a network: it shows what the record holds, and what is clicked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import headrace
from headrace.profile import Event, NodeFate, Peaks, Profile
from headrace.profile.cliffs import find_cliffs
from tests.test_profile import convolutions

pytestmark = pytest.mark.browser

EVIL = "</script><img src=x onerror=\"document.title='broken'\">"


def profile(kernels=30, name="model.onnx") -> Profile:
    """A run with a readback in mid-graph, made up."""
    rng, at, events = np.random.default_rng(5), 0.0, []

    def add(kind: str, track: str, ms: float, **more: object) -> None:
        nonlocal at
        values = {"name": kind, "nodes": (), "tensors": (), "bytes": 0, "flops": 0.0} | more
        events.append(Event(kind=kind, track=track, start_ms=at, span_ms=ms, ms=ms, p10_ms=ms, p90_ms=ms, **values))
        at += ms

    add("upload", "copy", 0.2, tensors=("x",), bytes=4000)
    for i in range(kernels):
        if i == kernels // 2:
            add("wait", "host", 0.1, before_host=True)
            add("readback", "copy", 0.01, tensors=("mask",), bytes=625, before_host=True)
            add("host step", "host", 0.02, name="Cast", nodes=("cast",), reason="asked for by host_nodes")
        flops, size = float(rng.integers(10**6, 10**9)), int(rng.integers(10**4, 10**7))
        ms = float(rng.uniform(0.5, 3))
        share = Peaks(1000, 100).least_ms(flops, size) / ms
        work = {"name": "conv", "nodes": (f"node{i}", EVIL) if i == 3 else (f"node{i}",)}
        add("kernel", "device", ms, flops=flops, bytes=size, share=share, bound="compute", **work)
    add("readback", "copy", 0.3, tensors=("y",), bytes=10**6)
    graph = [
        NodeFate(f"node{i}", "Conv", (f"t{i}",), (f"t{i + 1}",), "kernel", (_index(events, f"node{i}"),))
        for i in range(kernels)
    ]
    graph.append(NodeFate("cast", "Cast", ("t3",), ("mask2",), "host step", (_index(events, "cast"),)))
    graph.append(NodeFate("shape", "Shape", ("t3",), ("s",), "folded", ()))
    found = Profile(
        model=name, device="webgpu", adapter="a card", software=False, headrace="0", date="2026-01-01", machine={},
        inputs={"x": (1, 3, 8, 8)}, runs=3, ms=at, p10_ms=at, p90_ms=at, plain_ms=at, cold_ms={"load": 3.0, "compile": 9.0},
        peaks=Peaks(1000, 100), events=tuple(events), cliffs=(), graph=tuple(graph), peak_bytes=10**7,
        notes=({"node": "node3", "text": "not a DFT basis", "refused": True},),
    )  # fmt: skip
    return dataclasses.replace(found, cliffs=tuple(find_cliffs(found)))


def _index(events: list[Event], node: str) -> int:
    return next(i for i, e in enumerate(events) if node in e.nodes)


@pytest.fixture
def report(browser, tmp_path):
    """A function that opens a profile's page and gives (page, complaints)."""
    contexts = []

    def open_report(found: Profile, **options: object):
        path = tmp_path / "report.html"
        found.save_html(path)
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page, complaints = context.new_page(), []
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: complaints.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
        page.goto(path.as_uri())
        return page, complaints

    yield open_report
    for context in contexts:
        context.close()


def test_every_event_and_cliff_is_on_the_page(report):
    found = profile()
    page, complaints = report(found)
    assert page.locator("#timeline rect.event").count() == len(found.events)
    kernels = [e for e in found.events if e.kind == "kernel"]
    assert page.locator("#roofline circle").count() == len(kernels)
    assert page.locator("#work tbody tr").count() == len(found.work)
    assert page.locator("#copies tbody tr").count() == len(found.events) - len(found.work)
    cliffs = page.locator("#cliffs li").all_inner_texts()
    assert len(cliffs) == len(found.cliffs) and "625 bytes" in cliffs[0] and "readback" in cliffs[0]
    assert "not a DFT basis" in page.locator("#notes").inner_text()
    assert page.locator("#figures").inner_text().count("\n") > 6
    assert not complaints


def test_tables_sort_by_the_head_that_is_clicked(report):
    page, _ = report(profile())
    column = 'document.querySelectorAll("#work tbody tr td:nth-child(%d)")'
    values = lambda n: page.evaluate(f"[...{column % n}].map((c) => parseFloat(c.textContent))")  # noqa: E731
    assert values(3) == sorted(values(3), reverse=True)
    page.locator("#work th button", has_text="MB").click()
    assert values(6) == sorted(values(6), reverse=True)
    page.locator("#work th button", has_text="MB").click()
    assert values(6) == sorted(values(6))
    assert page.locator("#work th[aria-sort=ascending]").inner_text().startswith("MB")


def test_what_is_clicked_is_shown_everywhere(report):
    found = profile()
    page, complaints = report(found)
    page.locator("#cliffs button").first.click()
    readback = found.cliffs[0].event
    assert page.locator(f'#copies tr.chosen[data-event="{readback}"]').count() == 1
    assert page.locator(f'#timeline rect.picked[data-event="{readback}"]').count() == 1
    kernel = next(i for i, e in enumerate(found.events) if "node7" in e.nodes)
    page.locator(f'#work tr[data-event="{kernel}"]').click()
    assert page.locator("#roofline circle.picked").count() == 1
    assert "node7" in page.locator("#chosen").inner_text()
    assert "node7" in page.locator("#written .row.chosen").inner_text()
    page.locator("#written .row", has_text="node9").click()
    assert page.locator("#run .row.chosen", has_text="node9").count() == 1
    assert not complaints


def test_nodes_without_work_are_hidden_until_asked_for_and_found_by_name(report):
    page, _ = report(profile())
    rows = page.locator("#written .row")
    assert page.locator("#written .row", has_text="Shape").count() == 0
    page.locator("#folded").check()
    page.locator("#filter").fill("shape")
    assert rows.count() == 1 and "shape" in rows.inner_text()
    rows.click()
    assert "known before a run" in page.locator("#chosen").inner_text()
    page.locator("#filter").fill("node12")
    assert rows.count() == 1


def test_names_in_a_model_are_text_and_nothing_else(report):
    page, complaints = report(profile(name=EVIL))
    assert page.locator("h1").inner_text() == EVIL
    assert page.locator("img").count() == 0 and page.title() != "broken" and not complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_and_the_button(report, scheme):
    page, _ = report(profile(), color_scheme=scheme)
    brightness = (
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    )
    assert (page.evaluate(brightness) < 300) == (scheme == "dark")
    page.locator("#theme").click()
    assert (page.evaluate(brightness) < 300) == (scheme == "light")


def test_the_timeline_zooms_and_comes_back(report):
    found = profile()
    page, _ = report(found)
    page.locator("#timeline svg").scroll_into_view_if_needed()
    box = page.locator("#timeline svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    for _ in range(12):
        page.mouse.wheel(0, -200)
    page.wait_for_function(f"document.querySelectorAll('#timeline rect.event').length < {len(found.events) // 2}")
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + 5)
    page.wait_for_function(f"document.querySelectorAll('#timeline rect.event').length === {len(found.events)}")


def test_a_narrow_window_does_not_scroll_sideways(report):
    page, _ = report(profile(), viewport={"width": 420, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_real_profile_of_the_cpu(report, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    with headrace.InferenceSession(convolutions().SerializeToString(), "cpu") as session:
        found = session.profile({"x": np.random.default_rng(1).standard_normal((1, 3, 32, 32), dtype=np.float32)}, 2)
    page, complaints = report(found)
    assert page.locator("#timeline rect.event").count() == len(found.events) and not complaints
    assert page.locator("#written .row", has_text="softmax").count() == 1


def test_a_profile_of_nothing_opens_too(report):
    empty = dataclasses.replace(profile(), events=(), cliffs=(), graph=(), notes=(), cold_ms={}, peaks=Peaks())
    _, complaints = report(empty)
    assert not complaints
