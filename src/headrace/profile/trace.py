"""A profile in the trace-event format (Google, "Trace Event Format"), which Perfetto and chrome://tracing open."""

from __future__ import annotations

from typing import Any

from .record import TRACKS, Event, Profile

PROCESS = 1


def trace_events(profile: Profile) -> dict[str, Any]:
    """The run that was nearest to the median: complete events ("X", microseconds), one thread a track, all on the
    host's clock."""
    named = [_named("process_name", 0, f"{profile.model} on {profile.adapter}")]
    for i, track in enumerate(TRACKS):
        named += [_named("thread_name", i + 1, track), _named("thread_sort_index", i + 1, i)]
    return {
        "traceEvents": [*named, *(_complete(e) for e in profile.events)],
        "displayTimeUnit": "ms",
        "otherData": {
            "headrace": profile.headrace,
            "model": profile.model,
            "device": profile.device,
            "adapter": profile.adapter,
            "date": profile.date,
        },
    }


def _named(what: str, thread: int, value: str | int) -> dict[str, Any]:
    key = "sort_index" if isinstance(value, int) else "name"
    return {"name": what, "ph": "M", "pid": PROCESS, "tid": thread, "ts": 0, "args": {key: value}}


def _complete(e: Event) -> dict[str, Any]:
    args: dict[str, Any] = {"nodes": list(e.nodes), "tensors": list(e.tensors), "bytes": e.bytes, "flops": e.flops}
    if e.share is not None:
        args |= {"part of the roofline": round(e.share, 4), "bound by": e.bound}
    return {
        "name": e.name,
        "cat": e.kind,
        "ph": "X",
        "pid": PROCESS,
        "tid": TRACKS.index(e.track) + 1,
        "ts": round(1000 * e.start_ms, 3),
        "dur": round(1000 * e.span_ms, 3),
        "args": args,
    }
