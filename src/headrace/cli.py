"""The `headrace` command."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from .bench import Result, bench_cases, bench_model
from .bench.run import random_feeds
from .errors import HeadraceError, InputError
from .explanation import explain_model, print_explanation
from .session import InferenceSession, optimize
from .version import __version__

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
console, errors = Console(), Console(stderr=True)

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Size of a symbolic dimension.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu or webgpu.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="CPU threads; default all cores.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def _headrace(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run ONNX models without performance cliffs, and see where the time goes."""


@app.command()
def run(
    model: ModelPath,
    inputs: Annotated[
        list[str] | None, typer.Option("-i", "--input", metavar="NAME=FILE.npy", help="An input; random if not given.")
    ] = None,
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
    with _busy("loading"), InferenceSession(model, device, dims=_dims(dim), threads=threads) as session:
        feeds = random_feeds(session.get_inputs())
        feeds |= _read_inputs(inputs or [], feeds)
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


def _read_inputs(items: Sequence[str], known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    feeds = {}
    for item in items:
        name, _, file = item.partition("=")
        if not file:
            raise InputError(f"An input is given as NAME=FILE.npy, not {item!r}.")
        try:
            feeds[name] = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"Cannot read {file} for input {name!r}: {error}") from error
    return feeds


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
    top: Annotated[int, typer.Option("--top", min=1, help="Heavy nodes to list.")] = 15,
    as_json: JsonOption = False,
) -> None:
    """Say what is rewritten and why, what is refused and why, and what each heavy node costs, without running.

    Example: headrace explain model.onnx --dim batch=1
    """
    with _busy("reading"):
        explanation = explain_model(model, _dims(dim), device)
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
    with _busy("rewriting"):
        notes = optimize(model, output, _dims(dim) or None)
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
    from .backends import devices as all_devices

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


@app.command()
def web(
    model: ModelPath,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,224,224", help="Shape of an input; again for another size."),
    ] = None,
    dim: DimOption = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the folder on this machine until interrupted.")] = False,
    port: Annotated[int, typer.Option("--port", help="Port to serve on; 0 takes a free one.")] = 0,
) -> None:
    """Write a model as a folder that a page plays on WebGPU, with no runtime to download.

    Example: headrace web model.onnx -o site --shape x=1,3,224,224 --serve
    """
    from .web import export_web
    from .web.serve import server_for

    with _busy("compiling"):
        bundle = export_web(model, output, _shapes(shape), _dims(dim))
    files = sorted(output.iterdir())
    weights = sum(f.stat().st_size for f in files if f.suffix == ".bin")
    made = f"{len(bundle['plans'])} plan(s), {len(bundle['kernels'])} kernels, {weights / 1e6:.1f} MB of weights"
    console.print(f"{output}: {made}", highlight=False, soft_wrap=True)
    if serve:
        server = server_for(output, port)
        console.print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)")
        try:
            server.serve_forever()
        finally:
            server.server_close()


def _shapes(items: Sequence[str] | None) -> list[dict[str, tuple[int, ...]]] | None:
    """Sizes from `--shape` options: a name that comes again begins another size."""
    sizes: list[dict[str, tuple[int, ...]]] = []
    for item in items or ():
        name, _, text = item.partition("=")
        parts = text.split(",") if text else []
        if not parts or not all(_is_number(p.strip()) for p in parts):
            raise InputError(f"A shape is given as NAME=1,3,224,224, not {item!r}.")
        if not sizes or name in sizes[-1]:
            sizes.append({})
        sizes[-1][name] = tuple(int(p) for p in parts)
    return sizes or None


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
) -> None:
    """Time a model, or the reported cases, beside other runtimes: in turns, in one process.

    Example: headrace bench model.onnx --against onnxruntime --dim batch=1
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"--seconds is a positive number, not {seconds}.")
    peers = [p.strip() for p in against.split(",") if p.strip()] if against is not None else None
    results: list[Result] = []
    with _busy("timing") as progress:
        if model is not None:
            dims = _dims(dim)
            results.append(bench_model(str(model), model.name, None, device, peers, seconds, threads, dims))
        else:
            for result in bench_cases(device, peers, seconds, threads):
                progress(f"timed {result.name}")
                results.append(result)
    if as_json:
        print(json.dumps([_as_dict(r) for r in results]))
        return
    _print_results(results)


def _as_dict(result: Result) -> dict[str, Any]:
    return {
        "case": result.name,
        "device": result.device,
        "flops": result.flops,
        "ms": dict(result.ms),
        "spread_ms": {name: list(spread) for name, spread in result.spread.items()},
        "error": dict(result.errors),
        "notes": list(result.notes),
    }


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
        table.add_row(r.name, f"[bold]{_figure(r.ms['headrace'])}[/bold]", *cells, f"[bold]{rate:.3g}[/bold]", error)
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


def _dims(items: Sequence[str] | None) -> dict[str, int]:
    dims = {}
    for item in items or ():
        name, _, size = item.partition("=")
        if not _is_number(size) or int(size) < 1:
            raise InputError(f"A dimension is given as NAME=SIZE with a positive size, not {item!r}.")
        dims[name] = int(size)
    return dims


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class _busy:
    """A spinner on stderr, when it is a terminal, for what takes longer than a moment."""

    def __init__(self, text: str) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
        self._text = text

    def __enter__(self) -> Any:
        self._progress.start()
        task = self._progress.add_task(self._text, total=None)
        return lambda text: self._progress.update(task, description=text)

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()


def main() -> None:
    """Run the command; errors of headrace end it with one message and exit code 2."""
    warnings.showwarning = lambda message, *_: errors.print(f"warning: {message}", style="yellow", highlight=False)
    try:
        app(prog_name="headrace")
    except HeadraceError as error:
        errors.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
