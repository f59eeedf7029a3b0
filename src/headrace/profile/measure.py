"""Profiling a session: recorded runs between plain ones, their spans made into events by medians."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from .. import backends
from ..backends.base import Executable
from ..backends.spans import Recorder, Span
from ..model import Model, load
from ..rules.driver import label
from ..version import __version__
from .cliffs import find_cliffs
from .peaks import cpu_peaks, device_peaks, measured_peaks
from .record import WORK, Event, NodeFate, Peaks, Profile

SEEN = 0.01  # of a run: what takes longer tells what the device can do
PLAIN_RUNS = 5  # at most so many runs are timed without recording


@dataclass(frozen=True, slots=True)
class Subject:
    """What is profiled: a model made ready for a device, and how that was asked for."""

    model: Model
    name: str
    device: str
    executable: Executable
    options: backends.Options
    outputs: Sequence[str]


def profile_executable(
    subject: Subject,
    feeds: Mapping[str, Any],
    runs: int,
    cold_ms: Mapping[str, float],
    each: Callable[[int], None] = lambda _: None,
) -> Profile:
    """Profile `runs` runs. `each` is told how many are done; `cold_ms` is the cold start as the session saw it."""
    recorded = subject.executable.profiled()
    try:
        plain, timed = _runs(subject, recorded, feeds, runs, each)
        recorded.collect(feeds)
        spans = [recorder.finish() for _, recorder in timed]
        notes, plan = subject.executable.notes, recorded.plan
    finally:
        if recorded is not subject.executable:
            recorded.close()
    walls = np.array([(b - a) / 1e6 for (a, b), _ in timed])
    adapter, software = _adapter(subject)
    peaks = _peaks(subject, adapter, software)
    typical = int(np.argmin(np.abs(walls - np.median(walls))))
    peaks = replace(peaks, gflops=max(peaks.gflops, _fastest(spans[typical], walls[typical])))
    events = _events(_alike(spans, typical), timed[typical][0][0], peaks)
    profile = Profile(
        model=subject.name,
        device=subject.device,
        adapter=adapter,
        software=software,
        headrace=__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine={"system": platform.platform(), "processor": _processor(), "threads": os.cpu_count()},
        inputs={name: tuple(np.shape(a)) for name, a in feeds.items()},
        runs=runs,
        ms=float(np.median(walls)),
        p10_ms=float(np.percentile(walls, 10)),
        p90_ms=float(np.percentile(walls, 90)),
        plain_ms=float(np.median(plain)),
        cold_ms=dict(cold_ms),
        peaks=peaks,
        events=events,
        cliffs=(),
        notes=tuple({"node": n.node, "text": n.text, "refused": n.refused} for n in notes),
        graph=fates(subject.model, events),
        peak_bytes=None if plan is None else plan.peak_bytes,
    )
    return replace(profile, cliffs=tuple(find_cliffs(profile)))


def _fastest(spans: Sequence[Span], wall_ms: float) -> float:
    """GFLOP/s of the fastest piece of work that is not tiny: a device can do what it was seen to do."""
    rates = [s.flops / (s.end - s.start) for s in spans if (s.end - s.start) / 1e6 > SEEN * wall_ms]
    return max(rates, default=0.0)


def _runs(
    subject: Subject, recorded: Executable, feeds: Mapping[str, Any], runs: int, each: Callable[[int], None]
) -> tuple[list[float], list[tuple[tuple[int, int], Recorder]]]:
    """Milliseconds of plain runs, and (beginning, end) of each recorded run with its recorder, in turns."""
    plain: list[float] = []
    timed: list[tuple[tuple[int, int], Recorder]] = []
    subject.executable.run(subject.outputs, feeds)
    recorded.run(subject.outputs, feeds, recorder=Recorder())  # not counted: what is made once is made here
    for i in range(runs):
        if i < PLAIN_RUNS:
            start = time.perf_counter_ns()
            subject.executable.run(subject.outputs, feeds)
            plain.append((time.perf_counter_ns() - start) / 1e6)
        recorder, start = Recorder(), time.perf_counter_ns()
        recorded.run(subject.outputs, feeds, recorder=recorder)
        timed.append(((start, time.perf_counter_ns()), recorder))
        each(i + 1)
    return plain, timed


def _alike(runs: Sequence[Sequence[Span]], typical: int) -> list[list[Span]]:
    """For each span of the typical run, the same one in every run. Threads may change the order in which spans of
    one kind begin, so they are matched by what they are, and within that by order."""
    indexed: list[dict[tuple[object, ...], list[Span]]] = []
    for spans in runs:
        by_key: dict[tuple[object, ...], list[Span]] = {}
        for s in spans:
            by_key.setdefault((s.kind, s.name, s.nodes, s.tensors), []).append(s)
        indexed.append(by_key)
    seen: dict[tuple[object, ...], int] = {}
    found: list[list[Span]] = []
    for s in runs[typical]:
        key = (s.kind, s.name, s.nodes, s.tensors)
        at = seen[key] = seen.get(key, -1) + 1
        same = [by_key[key][at] for by_key in indexed if len(by_key.get(key, ())) > at]
        found.append([s, *(other for other in same if other is not s)])
    return found


def _events(matched: Sequence[Sequence[Span]], began: int, peaks: Peaks) -> tuple[Event, ...]:
    events = []
    for s, *others in matched:
        times = np.array([(x.end - x.start) / 1e6 for x in (s, *others)])
        ms = float(np.median(times))
        least = peaks.least_ms(s.flops, s.bytes) if s.kind in ("kernel", "operator") else 0.0
        events.append(
            Event(
                kind=s.kind,
                track=s.track,
                name=s.name,
                nodes=s.nodes,
                tensors=s.tensors,
                start_ms=(s.start - began) / 1e6,
                span_ms=(s.end - s.start) / 1e6,
                ms=ms,
                p10_ms=float(np.percentile(times, 10)),
                p90_ms=float(np.percentile(times, 90)),
                bytes=int(s.bytes),
                flops=float(s.flops),
                share=min(least / ms, 1.0) if least and ms else None,
                bound=peaks.bound(s.flops, s.bytes) if least else "",
                pipeline=s.pipeline,
                reason=s.reason,
                before_host=s.before_host,
            )
        )
    return tuple(events)


def fates(model: Model, events: Sequence[Event]) -> tuple[NodeFate, ...]:
    """What became of every node of the model: which events do its work."""
    doing: dict[str, list[int]] = {}
    for i, e in enumerate(events):
        if e.kind in WORK or e.kind == "control":
            for name in e.nodes:
                doing.setdefault(name, []).append(i)
    known = {str(name) for name in model.graph.initializers}
    found = []
    for node in model.graph:
        name = label(node)
        inputs = tuple(str(v.name) for v in node.inputs if v is not None)
        outputs = tuple(str(v.name) for v in node.outputs)
        inside = (
            label(n) for a in node.attributes.values() if isinstance(a.value, ir.Graph) for n in a.value.all_nodes()
        )
        mine = sorted({i for n in (name, *inside) for i in doing.get(n, ())})
        if mine:
            fate = events[mine[0]].kind
        elif node.op_type in ("Constant", "Shape", "Size") or all(n in known for n in inputs):
            fate = "folded"
            known.update(outputs)
        else:
            fate = "gone"
        found.append(NodeFate(name, node.op_type, inputs, outputs, fate, tuple(mine)))
    return tuple(found)


def _adapter(subject: Subject) -> tuple[str, bool]:
    if subject.device == "cpu":
        return _processor(), False
    device: Any = subject.executable
    return str(device.device.name), bool(device.device.target.software)


def _peaks(subject: Subject, adapter: str, software: bool) -> Peaks:
    if subject.device == "cpu":
        return measured_peaks(f"cpu {adapter} {os.cpu_count()}", software, cpu_peaks)
    options = backends.Options(adapter=subject.options.adapter)

    def executable_of(proto: onnx.ModelProto) -> Executable:
        return backends.executable(load(proto), subject.device, options)

    return measured_peaks(f"webgpu {adapter}", software, lambda software: device_peaks(executable_of, software))


def _processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
