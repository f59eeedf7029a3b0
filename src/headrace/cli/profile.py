"""`headrace profile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..bench.run import random_feeds
from ..files import check_writable
from ..profile import load_profile
from ..profile.table import comparison, print_comparison, print_profile
from ..session import InferenceSession
from .options import (
    DeviceOption,
    DimOption,
    HostNodesOption,
    InputsOption,
    JsonOption,
    ModelPath,
    ThreadsOption,
    app,
    busy,
    console,
    dims_of,
    read_inputs,
)


@app.command()
def profile(
    model: ModelPath,
    inputs: InputsOption = None,
    dim: DimOption = None,
    device: DeviceOption = "auto",
    adapter: Annotated[str | None, typer.Option("--adapter", help="Part of a WebGPU adapter's name.")] = None,
    threads: ThreadsOption = None,
    host_node: HostNodesOption = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Recorded runs.")] = 20,
    top: Annotated[int, typer.Option("--top", min=1, help="Pieces of work to list.")] = 15,
    as_json: JsonOption = False,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write the record as JSON.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a trace for Perfetto and chrome://tracing.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page: timeline, roofline, tables, graph.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="OLD.json", help="Compare with an earlier record.")
    ] = None,
) -> None:
    """Run a model and say where the time goes: kernels, copies, waits, host steps, and the cliffs among them.

    Example: headrace profile model.onnx --dim batch=1 --html report.html --trace trace.json
    """
    check_writable(save, trace, html)
    old = load_profile(compare) if compare is not None else None
    dims = dims_of(dim)
    with (
        busy("loading") as progress,
        InferenceSession(
            model, device, dims=dims, adapter=adapter, threads=threads, host_nodes=host_node or ()
        ) as session,
    ):
        feeds = random_feeds(session.get_inputs(), dims)
        feeds |= read_inputs(inputs or [], feeds)
        found = session.profile(feeds, runs, progress=lambda done: progress(f"run {done} of {runs}"))
    for path, write in ((save, found.save), (trace, found.save_trace), (html, found.save_html)):
        if path is not None:
            write(path)
    if as_json:
        compared = {"comparison": comparison(found, old)} if old is not None else {}
        print(json.dumps(found.as_dict() | compared))
        return
    print_profile(found, console, top)
    if old is not None:
        console.print()
        print_comparison(found, old, console, top)
