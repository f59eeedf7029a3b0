"""What is timed while a model is profiled: spans of time on the host, on the device and on the way between them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

HOST, DEVICE, COPY = "host", "device", "copy"  # tracks


@dataclass(slots=True)
class Span:
    """One thing that took time. `start` and `end` are nanoseconds of `time.perf_counter_ns`.

    Kinds: on the device "kernel"; on the way "upload" and "readback"; on the host "record" (commands written),
    "submit", "wait" (for the device), "host step" (a node of the model outside the device), "operator" (a node of ONNX
    Runtime), "control" (an If, Loop or Scan there, around its nodes) and "step" (a node that headrace computes on the
    CPU).
    """

    kind: str
    track: str
    name: str
    start: int
    end: int
    nodes: tuple[str, ...] = ()  # ONNX nodes whose work it does
    tensors: tuple[str, ...] = ()
    bytes: int = 0
    flops: float = 0
    pipeline: int = -1  # of a kernel: dispatches of one pipeline for the same nodes are parts of one piece of work
    reason: str = ""  # why a host step is one
    before_host: bool = False  # what is waited for or read back goes to a host step, not out of the run


@dataclass(slots=True)
class Recorder:
    """Collects the spans of one run. Device times arrive after the run: `later` holds what fetches them."""

    spans: list[Span] = field(default_factory=list)
    later: list[Callable[[], Sequence[Span]]] = field(default_factory=list)

    @contextlib.contextmanager
    def span(self, kind: str, track: str, name: str = "") -> Iterator[Span]:
        """Time what is done inside; the caller may add to the span."""
        found = Span(kind, track, name or kind, time.perf_counter_ns(), 0)
        try:
            yield found
        finally:
            found.end = time.perf_counter_ns()
            self.spans.append(found)

    def finish(self) -> list[Span]:
        """All spans of the run, in order of their starts."""
        for fetch in self.later:
            self.spans += fetch()
        self.later.clear()
        return sorted(self.spans, key=lambda s: (s.start, s.end))


class Phases:
    """Milliseconds of a cold start by phase, added up: load, optimize, lower, compile, first run."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._inner = [0.0]  # ms of the phases inside the one that is open

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of what is done inside, without that of phases in it."""
        start = time.perf_counter_ns()
        self._inner.append(0.0)
        try:
            yield
        finally:
            ms = (time.perf_counter_ns() - start) / 1e6
            self.ms[name] = self.ms.get(name, 0.0) + ms - self._inner.pop()
            self._inner[-1] += ms

    @property
    def total(self) -> float:
        """All phases so far."""
        return sum(self.ms.values())


_NOTHING = contextlib.nullcontext()


def spanned(
    recorder: Recorder | None, kind: str, track: str, name: str = ""
) -> contextlib.AbstractContextManager[Span | None]:
    """`recorder.span`, or nothing where nothing is recorded."""
    return _NOTHING if recorder is None else recorder.span(kind, track, name)
