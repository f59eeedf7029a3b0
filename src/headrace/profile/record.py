"""The record of a profile: plain data that is printed, drawn, saved and compared."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..decode import decoded
from ..files import read_record, write_text

FORMAT = 1
PRINTED_WIDTH, PRINTED_ROWS = 120, 15
TRACKS = ("host", "copy", "device")
WORK = ("kernel", "operator", "step", "host step")  # kinds of events that compute
PREDICTED = "predicted by roofline, at best"


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a device can do at most: `gflops` of a large float32 matrix product, `gbs` of a stream (10^9 bytes read and
    written a second). 0 where it is not known."""

    gflops: float = 0.0
    gbs: float = 0.0

    def least_ms(self, flops: float, moved: float) -> float:
        """The roofline: milliseconds that so many operations and bytes take at least; 0 where a peak is not known."""
        compute = flops / self.gflops / 1e6 if self.gflops else 0.0
        memory = moved / self.gbs / 1e6 if self.gbs else 0.0
        return max(compute, memory)

    def bound(self, flops: float, moved: float) -> str:
        """Whether "compute" or "memory" is what the roofline is made of."""
        if not (self.gflops and self.gbs):
            return ""
        return "compute" if flops / self.gflops >= moved / self.gbs else "memory"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that took time in a run: medians over the runs. `start_ms` and `span_ms` are its place and its duration
    in the run that was nearest to the median. Kinds and tracks are those of backends.spans.Span. `share` is the part of
    the roofline that it reached (0 to 1; None where that cannot be said); `reason` is why a host step is one. `parts`
    is above 1 where `pieces` took dispatches of one pipeline for the same nodes together."""

    kind: str
    track: str
    name: str
    nodes: tuple[str, ...]
    tensors: tuple[str, ...]
    start_ms: float
    span_ms: float
    ms: float
    p10_ms: float
    p90_ms: float
    bytes: int
    flops: float
    share: float | None = None
    bound: str = ""
    pipeline: int = -1
    parts: int = 1
    reason: str = ""
    before_host: bool = False

    @property
    def gflops(self) -> float:
        """10^9 floating-point operations a second."""
        return self.flops / self.ms / 1e6 if self.ms else 0.0

    @property
    def gbs(self) -> float:
        """10^9 bytes a second."""
        return self.bytes / self.ms / 1e6 if self.ms else 0.0


@dataclass(frozen=True, slots=True)
class Cliff:
    """Something that costs more than it must. `text` says what, where and what to do; `ms` is about what it costs in a
    run. `kind` is "readback", "host step", "far from roofline" or "dominates"."""

    kind: str
    text: str
    nodes: tuple[str, ...]
    ms: float
    event: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFate:
    """A node of the model as it is written, and what became of it: "kernel", "operator", "step", "host step" with the
    events that do its work, "folded" (its value is known before a run), or "gone" (fused or not needed)."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fate: str
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """Where the time of a model goes on one device. All times are milliseconds.

    `ms` is the median of runs while they were recorded, `plain_ms` of runs that were not. `cold_ms` splits the time
    from the file to the first result by phase: load, optimize, lower, compile, first run. `runs` 0 means that nothing
    was run: all times are PREDICTED.
    """

    model: str
    device: str
    adapter: str
    software: bool
    headrace: str
    date: str
    machine: Mapping[str, Any]
    inputs: Mapping[str, tuple[int, ...]]
    runs: int
    ms: float
    p10_ms: float
    p90_ms: float
    plain_ms: float
    cold_ms: Mapping[str, float]
    peaks: Peaks
    events: tuple[Event, ...]
    cliffs: tuple[Cliff, ...]
    notes: tuple[Mapping[str, Any], ...]
    graph: tuple[NodeFate, ...] = field(default=(), repr=False)
    peak_bytes: int | None = None
    format: int = FORMAT

    def __repr__(self) -> str:
        return f"Profile({self.model!r} on {self.device}: {self.ms:.3f} ms, {len(self.events)} events)"

    def __str__(self) -> str:
        """The tables that `headrace profile` prints."""
        from rich.console import Console

        from .table import print_prediction, print_profile

        console = Console(width=PRINTED_WIDTH, file=io.StringIO(), markup=False, emoji=False)
        (print_profile if self.runs else print_prediction)(self, console, PRINTED_ROWS)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().rstrip()

    @property
    def work(self) -> list[Event]:
        """The events that compute: kernels, operators, steps and host steps."""
        return [e for e in self.events if e.kind in WORK]

    @property
    def pieces(self) -> list[tuple[int, Event]]:
        """`work` with the index of each event; a launch that was too large for one dispatch is one piece, and so is a
        node that runs again in a loop."""
        found: list[tuple[int, Event]] = []
        place: dict[object, int] = {}  # of what may take more
        for i, e in enumerate(self.events):
            if e.kind not in WORK:
                continue
            key = (e.kind, e.name, e.nodes) if e.kind == "operator" and e.nodes else (e.pipeline, e.nodes)
            if key not in place or (e.kind != "operator" and (e.pipeline < 0 or place[key] != len(found) - 1)):
                place[key] = len(found)
                found.append((i, e))
            else:
                first, before = found[place[key]]
                found[place[key]] = (first, _together(before, e))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Write the record as JSON; `load_profile` reads it.

        Raises:
            InputError: the file cannot be written.
        """
        write_text(path, json.dumps(self.as_dict()))

    def save_trace(self, path: str | Path) -> None:
        """Write the run in the trace-event format, for ui.perfetto.dev and chrome://tracing.

        Raises:
            InputError: the file cannot be written.
        """
        from .trace import trace_events

        write_text(path, json.dumps(trace_events(self)))

    def save_html(self, path: str | Path) -> None:
        """Write one page that needs nothing else: timeline, roofline, tables, and what became of each node.

        Raises:
            InputError: the file cannot be written.
        """
        from .report import html

        write_text(path, html(self))


def _together(a: Event, b: Event) -> Event:
    """Two parts of one piece of work: times, bytes and operations added up."""
    ms = a.ms + b.ms
    share = None
    if a.share is not None and b.share is not None:
        share = (a.share * a.ms + b.share * b.ms) / ms if ms else 0.0
    return replace(
        a,
        ms=ms,
        p10_ms=a.p10_ms + b.p10_ms,
        p90_ms=a.p90_ms + b.p90_ms,
        bytes=a.bytes + b.bytes,
        flops=a.flops + b.flops,
        share=share,
        parts=a.parts + b.parts,
    )


def load_profile(path: str | Path) -> Profile:
    """The profile that `Profile.save` or `headrace profile --json` wrote.

    Raises:
        InputError: no such file, or not a profile of this format.
    """
    return read_record(path, FORMAT, "headrace profile --save", _profile)


def _profile(data: dict[str, Any]) -> Profile:
    found: Profile = decoded({name: value for name, value in data.items() if name != "comparison"}, Profile)
    if any(e.track not in TRACKS for e in found.events):
        raise ValueError("an event on no track")
    return found
