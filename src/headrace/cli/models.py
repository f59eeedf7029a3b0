"""Commands on one model: run, explain, optimize; and the list of devices."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from ..bench.run import random_feeds
from ..errors import InputError
from ..explanation import explain_model, print_explanation
from ..session import InferenceSession, optimize
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
def run(
    model: ModelPath,
    inputs: InputsOption = None,
    dim: DimOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Timed runs, after one that is not timed.")] = 1,
    save: Annotated[Path | None, typer.Option("--save", metavar="DIR", help="Write outputs as DIR/NAME.npy.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a model once or more, and say how long it took.

    Example: headrace run model.onnx -i x=x.npy --dim batch=1 --repeat 10 --save out
    """
    with busy("loading"), InferenceSession(model, device, dims=dims_of(dim), threads=threads) as session:
        feeds = random_feeds(session.get_inputs())
        feeds |= read_inputs(inputs or [], feeds)
        outputs = session.run(None, feeds)
        times = [_timed(session, feeds) for _ in range(repeat)]
        names, used = [o.name for o in session.get_outputs()], session.device
    if save is not None:
        _save(save, names, outputs)
    report = {
        "model": str(model),
        "device": used,
        "ms": times,
        "median_ms": float(np.median(times)),
        "outputs": {
            n: {"shape": list(np.shape(o)), "dtype": str(np.asarray(o).dtype)}
            for n, o in zip(names, outputs, strict=True)
        },
    }
    if as_json:
        print(json.dumps(report))
        return
    table = Table("output", "dtype", "shape", "mean", "min", "max")
    for name, output in zip(names, outputs, strict=True):
        table.add_row(name, *_summary(output))
    console.print(table)
    console.print(f"{report['median_ms']:.3f} ms on {used}, median of {repeat} run(s) after one that is not counted")


def _timed(session: InferenceSession, feeds: dict[str, np.ndarray]) -> float:
    start = time.perf_counter()
    session.run(None, feeds)
    return (time.perf_counter() - start) * 1e3


def _summary(output: Any) -> list[str]:
    array = np.asarray(output)
    figures = ["-"] * 3
    if array.size and array.dtype.kind in "fiub":
        values = array.astype(np.float64)
        figures = [f"{v:.4g}" for v in (values.mean(), values.min(), values.max())]
    return [str(array.dtype), str(list(array.shape)), *figures]


def _save(folder: Path, names: Sequence[str], outputs: Sequence[Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, output in zip(names, outputs, strict=True):
            np.save(folder / f"{name.replace('/', '_')}.npy", np.asarray(output))
    except OSError as error:
        raise InputError(f"Cannot write the outputs: {error}") from error


@app.command()
def explain(
    model: ModelPath,
    dim: DimOption = None,
    device: DeviceOption = "cpu",
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="GPU", help="Predict for m1, rtx4090, igpu, or a .json or .toml file."),
    ] = None,
    host_node: HostNodesOption = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Heavy nodes to list.")] = 15,
    as_json: JsonOption = False,
) -> None:
    """Say what is rewritten and why, what is refused and why, and what each heavy node costs, without running.

    Example: headrace explain model.onnx --dim batch=1
    """
    with busy("reading"):
        explanation = explain_model(model, dims_of(dim), device, target, host_node or ())
    if as_json:
        print(json.dumps(explanation.as_dict()))
    else:
        print_explanation(explanation, console, top)


@app.command("optimize")
def optimize_command(
    model: ModelPath,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The file to write.")],
    dim: DimOption = None,
) -> None:
    """Rewrite a model into standard ONNX that any runtime runs faster.

    Example: headrace optimize model.onnx -o fast.onnx --dim batch=1
    """
    with busy("rewriting"):
        notes = optimize(model, output, dims_of(dim) or None)
    done = [n for n in notes if not n.refused]
    for note in notes:
        console.print(
            f"{'  kept' if note.refused else 'changed'}  {note.node or 'model'}: {note.text}", highlight=False
        )
    console.print(f"{output}: {len(done)} change(s)")


@app.command()
def devices(as_json: JsonOption = False) -> None:
    """List the devices that a model can run on.

    Example: headrace devices
    """
    from ..backends import devices as all_devices

    found = all_devices()
    if as_json:
        print(
            json.dumps([{f: getattr(d, f) for f in ("device", "adapter", "kind", "software", "detail")} for d in found])
        )
        return
    table = Table("device", "adapter", "kind", "detail")
    for device in found:
        table.add_row(
            device.device,
            device.adapter,
            f"{device.kind} (software)" if device.software else device.kind,
            device.detail,
        )
    console.print(table)
