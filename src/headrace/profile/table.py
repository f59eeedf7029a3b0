"""A profile, and two of them compared, as tables on a console that takes text as it is (markup=False)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .cliffs import percent
from .record import PREDICTED, Event, Profile

WIDE = 110  # columns of a terminal that has room for rates
COPIES = ("upload", "readback", "wait", "submit", "record")


def print_profile(p: Profile, console: Console, top: int = 15) -> None:
    """Cliffs first, then the heaviest work, the copies and waits, and the cold start."""
    spread = f" (10–90 %: {p.p10_ms:.3f}–{p.p90_ms:.3f}), {p.plain_ms:.3f} ms when not recorded; {p.runs} runs"
    where = f" on {p.device} ({p.adapter}): "
    console.print(Text.assemble((p.model, "bold"), where, (f"{p.ms:.3f} ms", "bold"), spread), highlight=False)
    peaks = f"{p.peaks.gflops:.4g} GFLOP/s and {p.peaks.gbs:.3g} GB/s" if p.peaks.gflops else "not known"
    console.print(f"measured peaks of the device: {peaks}", highlight=False, style="dim")
    _print_cliffs(p, console)
    console.print()
    console.print(_work_table(p, top, console.width >= WIDE))
    _print_overhead(p, console)
    cold = " + ".join(f"{name} {ms:.0f}" for name, ms in p.cold_ms.items() if ms >= 0.5)
    console.print(f"cold start {sum(p.cold_ms.values()):.0f} ms: {cold}", highlight=False)


def print_prediction(p: Profile, console: Console, top: int) -> None:
    """What a run is predicted to take where it was not run, and the cliffs to expect."""
    rates = f"{p.peaks.gflops:.4g} GFLOP/s and {p.peaks.gbs:.4g} GB/s"
    told = f", {PREDICTED} on {p.adapter}, {rates}. Nothing was run."
    console.print(Text.assemble((f"\n{p.ms:.3g} ms", "bold"), told), highlight=False)
    _print_cliffs(p, console)
    console.print(_work_table(p, top, console.width >= WIDE))
    _print_overhead(p, console)


def _print_cliffs(p: Profile, console: Console) -> None:
    if p.cliffs:
        console.print("\nCliffs", style="bold")
    for i, cliff in enumerate(p.cliffs, 1):
        console.print(f"  {i}. {cliff.text}", highlight=False)


def _work_table(p: Profile, top: int, rates: bool) -> Table:
    work = [e for _, e in p.pieces]
    total = sum(e.ms for e in work)
    title = f"Heaviest of {len(work)} pieces of work, {total:.3f} ms in all"
    table = Table("kernel", title=title)
    table.add_column("does the work of", overflow="fold")
    for head in ("ms", "%", *(("GFLOP/s", "GB/s") if rates else ()), "of peak"):
        table.add_column(head, justify="right", no_wrap=True)
    for e in sorted(work, key=lambda e: -e.ms)[:top]:
        table.add_row(
            _called(e),
            briefly(e.nodes),
            f"{e.ms:.3f}",
            f"{100 * e.ms / total:.1f}" if total else "-",
            *((f"{e.gflops:.3g}" if e.flops else "-", f"{e.gbs:.3g}") if rates else ()),
            percent(e.share) if e.share is not None else "-",
        )
    return table


def _called(e: Event) -> str:
    name = e.name if e.kind in ("kernel", "operator") else f"{e.name} ({e.kind})"
    return f"{name} ×{e.parts}" if e.parts > 1 else name


def _print_overhead(p: Profile, console: Console) -> None:
    counts = Counter(e.kind for e in p.events)
    parts = []
    for kind in COPIES:
        found = [e for e in p.events if e.kind == kind]
        if found:
            moved = sum(e.bytes for e in found) if kind in ("upload", "readback") else 0
            size = f", {moved / 1e6:.3g} MB" if moved else ""
            parts.append(
                f"{counts[kind]} {kind}{'s' if counts[kind] > 1 else ''} {sum(e.ms for e in found):.3f} ms{size}"
            )
    if parts:
        console.print("; ".join(parts), highlight=False)


def briefly(nodes: Sequence[str]) -> str:
    """Paths of nodes, as exporters write them, cut to what tells them apart."""
    tails = [node.rstrip("/").split("/")[-1] for node in nodes]
    head = "/".join(nodes[0].rstrip("/").split("/")[-6:]) if nodes else ""
    return " + ".join([head, *tails[1:4]]) + (f" + {len(tails) - 4} more" if len(tails) > 4 else "")


def print_comparison(new: Profile, old: Profile, console: Console, top: int = 15) -> None:
    """What became faster or slower between two profiles, the largest differences first."""
    table = Table("", "before, ms", "now, ms", "times faster", title=f"{old.model} ({old.date}) and {new.model}")
    for name, (before, now) in _totals(new, old).items():
        table.add_row(name, f"{before:.3f}", f"{now:.3f}", f"{before / now:.2f}" if now else "-")
    console.print(table)
    for what in _changed(new, old):
        console.print(f"the {what} differ: {getattr(old, what)} and {getattr(new, what)}", style="yellow")
    rows = differences(new, old)
    if not rows:
        return
    table = Table("does the work of", "before, ms", "now, ms", "difference", title="Work that changed most")
    for nodes, was, now_takes in rows[:top]:
        cells = ["-" if ms is None else f"{ms:.3f}" for ms in (was, now_takes)]
        table.add_row(briefly(nodes), *cells, f"{(now_takes or 0) - (was or 0):+.3f}")
    console.print(table)


def comparison(new: Profile, old: Profile) -> dict[str, Any]:
    """What `print_comparison` says as plain data, for JSON: milliseconds before and now of all and of each piece of
    work, and which of device, adapter and inputs differ."""
    return {
        "date": old.date,
        "model": old.model,
        "ms": {name: {"before": before, "now": now} for name, (before, now) in _totals(new, old).items()},
        "differ": _changed(new, old),
        "work": [{"nodes": nodes, "before": was, "now": now} for nodes, was, now in differences(new, old)],
    }


def _totals(new: Profile, old: Profile) -> dict[str, tuple[float, float]]:
    return {
        "run": (old.ms, new.ms),
        "run, not recorded": (old.plain_ms, new.plain_ms),
        "cold start": (sum(old.cold_ms.values()), sum(new.cold_ms.values())),
    }


def _changed(new: Profile, old: Profile) -> list[str]:
    return [what for what in ("device", "adapter", "inputs") if getattr(old, what) != getattr(new, what)]


def differences(new: Profile, old: Profile) -> list[tuple[tuple[str, ...], float | None, float | None]]:
    """(nodes, ms before, ms now) of the work in two profiles, matched by the nodes it does; the largest change first.
    None where one of them has no such work."""
    before, now = _by_nodes(old.work), _by_nodes(new.work)
    rows = [(nodes, before.get(nodes), now.get(nodes)) for nodes in {**before, **now}]
    return sorted(rows, key=lambda r: -abs((r[2] or 0) - (r[1] or 0)))


def _by_nodes(events: Sequence[Event]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for e in events:
        found[e.nodes] = found.get(e.nodes, 0.0) + e.ms
    return found
