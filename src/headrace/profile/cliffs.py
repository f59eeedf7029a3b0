"""Cliffs: what costs more than it must, each said in a sentence with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .record import Cliff, Event, Profile

FAR = 0.25  # below this part of the roofline a kernel is far from it
MATTERS = 0.02  # of the run: what loses less is no cliff
DOMINATES = 0.4  # of all work
TINY_MS = 0.05
LAUNCHES = 0.1  # of the run: what many small pieces may lose together
MOST = 12
SHOWN = 2  # names of nodes in a sentence

ADVICE = {
    "asked for by host_nodes": "Take it out of host_nodes: it has a kernel",
    "no kernel for this operator": "Export the model with other operators there",
}
OTHERWISE = "Change the model there, so that the node is not needed or its operands are constants"


def find_cliffs(profile: Profile) -> list[Cliff]:
    """Cliffs, what stops the device first: readbacks in mid-graph, host steps, then kernels by the time they lose."""
    stops = sorted([*_readbacks(profile), *_host_steps(profile)], key=lambda c: (c.kind != "readback", -c.ms))
    slow = sorted([*_far(profile), *_dominating(profile), *_launches(profile)], key=lambda c: -c.ms)
    return [*stops, *slow][:MOST]


def _readbacks(profile: Profile) -> list[Cliff]:
    """Every readback for which the host waits in the middle of the graph, with the host steps that follow it."""
    cliffs, events = [], profile.events
    for i, e in enumerate(events):
        if e.kind != "readback" or not e.before_host:
            continue
        wait = next((events[j] for j in range(i - 1, -1, -1) if events[j].kind == "wait"), None)
        steps = _steps_after(events, i)
        nodes = tuple(dict.fromkeys(name for s in steps for name in s.nodes))
        reason = next((s.reason for s in steps), "")
        idle = _idle_ms(events, e)
        cost = f"the device stands still for {_time(idle)} meanwhile" if idle else "the device stands still meanwhile"
        waited = f", after {_time(wait.ms)} of waiting" if wait is not None else ""
        text = (
            f"{_bytes(e.bytes)} ({_some(e.tensors)}) come back from the device in mid-graph{waited}, because "
            f"{_some(nodes)} run{'s' if len(nodes) == 1 else ''} on the host: {cost}. {_what_to_do(reason)}"
        )
        cliffs.append(Cliff("readback", text, nodes, e.ms + idle, i))
    return cliffs


def _steps_after(events: Sequence[Event], i: int) -> list[Event]:
    found = []
    for e in events[i + 1 :]:
        if e.kind == "host step":
            found.append(e)
        elif e.track == "device" or e.kind == "submit":
            break
    return found


def _idle_ms(events: Sequence[Event], readback: Event) -> float:
    """From the last kernel before the readback to the first one after it."""
    ends = [e.start_ms + e.span_ms for e in events if e.kind == "kernel" and e.start_ms < readback.start_ms]
    starts = [e.start_ms for e in events if e.kind == "kernel" and e.start_ms > readback.start_ms]
    return max(min(starts) - max(ends), 0.0) if ends and starts else 0.0


def _host_steps(profile: Profile) -> list[Cliff]:
    cliffs = []
    for i, e in enumerate(profile.events):
        if e.kind == "host step":
            text = f"{_some(e.nodes)} ({e.name}) runs on the host: {_time(e.ms)}. {_what_to_do(e.reason)}"
            cliffs.append(Cliff("host step", text, e.nodes, e.ms, i))
    return cliffs


def _what_to_do(reason: str) -> str:
    if not reason:
        return "See `headrace explain --device webgpu` for the reason."
    advice = next((text for start, text in ADVICE.items() if reason.startswith(start)), OTHERWISE)
    return f"Reason: {reason}. {advice}."


def _far(profile: Profile) -> list[Cliff]:
    """Kernels and operators far below the roofline, where that matters to the run."""
    cliffs = []
    for i, e in profile.pieces:
        if e.kind not in ("kernel", "operator") or e.share is None or e.share >= FAR:
            continue
        lost = e.ms * (1 - e.share)
        if lost >= MATTERS * profile.ms:
            rate = f"{e.gflops:.3g} of {profile.peaks.gflops:.3g} GFLOP/s"
            if e.bound == "memory":
                rate = f"{e.gbs:.3g} of {profile.peaks.gbs:.3g} GB/s"
            text = (
                f"{e.name} of {_some(e.nodes)} takes {_time(e.ms)}{_parts(e)} at {percent(e.share)} of what the device "
                f"can do ({rate}). {_why(profile, e)}"
            )
            cliffs.append(Cliff("far from roofline", text, e.nodes, lost, i))
    return cliffs


def _dominating(profile: Profile) -> list[Cliff]:
    total = sum(e.ms for e in profile.work)
    cliffs = []
    for i, e in profile.pieces:
        near = e.share is None or e.share >= FAR
        if e.kind in ("kernel", "operator", "step") and near and total and e.ms > DOMINATES * total:
            reached = f", at {percent(e.share)} of what the device can do" if e.share is not None else ""
            text = (
                f"{e.name} of {_some(e.nodes)} is {100 * e.ms / total:.0f} % of the work ({_time(e.ms)}{_parts(e)})"
                f"{reached}: only less work makes it faster. {_said(profile, e)}".rstrip()
            )
            cliffs.append(Cliff("dominates", text, e.nodes, e.ms, i))
    return cliffs


def _launches(profile: Profile) -> list[Cliff]:
    """Many pieces of work, each too small to fill the device: alone none of them matters."""
    tiny = [
        (i, e)
        for i, e in profile.pieces
        if e.kind in ("kernel", "operator") and e.ms / e.parts < TINY_MS and e.share is not None and e.share < FAR
    ]
    lost = sum(e.ms * (1 - (e.share or 0.0)) for _, e in tiny)
    if len(tiny) < 2 or lost < LAUNCHES * profile.ms:
        return []
    nodes = tuple(dict.fromkeys(n for _, e in tiny for n in e.nodes))
    text = (
        f"{len(tiny)} pieces of work under {_time(TINY_MS)} each take {_time(sum(e.ms for _, e in tiny))} together "
        f"({100 * lost / profile.ms:.0f} % of the run) and do not fill the device ({_some(nodes)}): more work at "
        "once, as a larger batch, shares their launches."
    )
    return [Cliff("far from roofline", text, nodes, lost, tiny[0][0])]


def _why(profile: Profile, e: Event) -> str:
    """What the rules said about the nodes of an event that is far from the roofline."""
    said = _said(profile, e)
    if said:
        return said
    if e.ms < TINY_MS:
        return "It is too small to fill the device: a larger batch shares the cost of its launch."
    return "No rewrite is known for it: its shape fills the device badly, or the kernel is weak there."


def _said(profile: Profile, e: Event) -> str:
    notes = _notes(profile, e)
    refused = [str(n["text"]) for n in notes if n["refused"]]
    if refused:
        return f"A rewrite was refused: {refused[0]}."
    return f"It is rewritten already: {notes[0]['text']}." if notes else ""


def _notes(profile: Profile, e: Event) -> list[Mapping[str, Any]]:
    return [n for n in profile.notes if n["node"] in e.nodes]


def _parts(e: Event) -> str:
    what = "dispatches" if e.kind == "kernel" else "runs of it"
    return f" in {e.parts} {what}" if e.parts > 1 else ""


def _some(names: Sequence[str]) -> str:
    if not names:
        return "nodes without a name"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def percent(share: float) -> str:
    """A part of a whole, as people read it."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _time(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1000:.3g} s"
    if ms >= 100:
        return f"{ms:.0f} ms"
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{1000 * ms:.3g} µs"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e4)):
        if count >= size:
            return f"{count / (1e3 if unit == 'kB' else size):.3g} {unit}"
    return f"{count} bytes"
