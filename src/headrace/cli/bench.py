"""`headrace bench`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..bench import Result, bench_cases, bench_model
from ..bench.record import Record, changes, load_record
from ..errors import InputError
from ..files import check_writable
from .options import DeviceOption, DimOption, JsonOption, ThreadsOption, app, busy, console, dims_of


@app.command()
def bench(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="An .onnx file; the reported cases if left out.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="PEER,...", help="onnxruntime, openvino, torch; default those installed."),
    ] = None,
    device: DeviceOption = "auto",
    dim: DimOption = None,
    threads: ThreadsOption = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Time for each contender and case.")] = 1.5,
    as_json: JsonOption = False,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write the record as JSON.")] = None,
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="OLD.json", help="Compare with an earlier record.")
    ] = None,
) -> None:
    """Time a model, or the reported cases, beside other runtimes: in turns, in one process.

    Example: headrace bench model.onnx --against onnxruntime --dim batch=1
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"--seconds is a positive number, not {seconds}.")
    check_writable(save)
    old = load_record(compare) if compare is not None else None
    peers = [p.strip() for p in against.split(",") if p.strip()] if against is not None else None
    results: list[Result] = []
    with busy("timing") as progress:
        if model is not None:
            dims = dims_of(dim)
            results.append(bench_model(str(model), model.name, None, device, peers, seconds, threads, dims))
        else:
            for result in bench_cases(device, peers, seconds, threads):
                progress(f"timed {result.name}")
                results.append(result)
    record = Record(tuple(results))
    if save is not None:
        record.save(save)
    if as_json:
        compared = {"comparison": [asdict(c) for c in changes(record, old)]} if old is not None else {}
        print(json.dumps(record.as_dict() | compared))
        return
    _print_results(results)
    if old is not None:
        _print_changes(record, old)


def _print_changes(new: Record, old: Record) -> None:
    found = changes(new, old)
    table = Table("case", title=f"headrace {old.headrace} on {old.date}, and now")
    for head in ("before, ms", "now, ms", "times faster"):
        table.add_column(head, justify="right", no_wrap=True)
    for c in found:
        doubt = "" if c.certain else " (within the spread)"
        table.add_row(c.name, _figure(c.before_ms), _figure(c.now_ms), f"{c.times_faster:.3g}{doubt}")
    console.print(table if found else "The earlier record has none of these cases on this device.")
    if old.machine != new.machine:
        console.print(f"the machines differ: {dict(old.machine)} and {dict(new.machine)}", style="yellow")


HEADS = {
    "headrace": "head\nrace",
    "onnxruntime": "onnx\nruntime",
    "openvino": "open\nvino",
    "numpy GEMM": "numpy\nGEMM",
}


def _print_results(results: Sequence[Result]) -> None:
    peers = list(dict.fromkeys(n for r in results for n in r.ms if n != "headrace"))
    table = Table(title=f"median milliseconds on {results[0].device}")
    table.add_column("case", overflow="fold", ratio=1)
    for name in ("headrace", *peers):
        table.add_column(HEADS.get(name, name), justify="right", no_wrap=True)
    table.add_column("times faster\nthan onnxrt" if "onnxruntime" in peers else "GFLOP/s", justify="right")
    table.add_column("error", justify="right", no_wrap=True)
    for r in results:
        cells = [_figure(r.ms[p]) if p in r.ms else "-" for p in peers]
        rate = r.speedup("onnxruntime") if "onnxruntime" in r.ms else r.flops / r.ms["headrace"] / 1e6
        error = f"{max(r.errors.values(), default=0):.0e}"
        ours, faster = Text(_figure(r.ms["headrace"]), "bold"), Text(f"{rate:.3g}", "bold")
        table.add_row(r.name, ours, *cells, faster, error)
    console.print(table)
    for r in results:
        speed = f"{r.flops / r.ms['headrace'] / 1e6:.4g} GFLOP/s" if r.flops else ""
        done = "; ".join(n.split(": estimated")[0] for n in r.notes[:2]) or "as it stands"
        console.print(f"  {r.name}: {speed}, {done}", highlight=False, style="dim")
    console.print(
        "  GFLOP/s count the operations of the model as it is written: a recognised DFT does far fewer.", style="dim"
    )


def _figure(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"
