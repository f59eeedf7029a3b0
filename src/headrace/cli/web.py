"""`headrace web`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .options import DimOption, ModelPath, app, busy, console, dims_of, is_number

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

RUNTIME = "ort.webgpu.min.mjs"


@app.command()
def web(
    model: ModelPath,
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="NAME=1,3,224,224",
            help="Shape of an input; again for another size. Default: every size.",
        ),
    ] = None,
    dim: DimOption = None,
    f16: Annotated[bool, typer.Option("--f16", help="Store weights in 16 bits: half the download, rounded.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the folder on this machine until interrupted.")] = False,
    beside: Annotated[
        Path | None,
        typer.Option(
            "--beside", metavar="DIR", help="onnxruntime-web's dist folder: the page times it on the model too."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to serve on; default, and with 0, a free one.")
    ] = None,
) -> None:
    """Write a model as a folder that a page plays on WebGPU, with no runtime to download.

    Example: headrace web model.onnx -o site --shape x=1,3,224,224 --serve
    """
    from ..web import export_web

    if not serve and (beside is not None or port is not None):
        raise InputError(
            f"{'--beside' if beside is not None else '--port'} is for --serve: add --serve or leave it out."
        )
    with _server(Path(output), port or 0, beside, model) if serve else nullcontext() as server:
        with busy("compiling"):
            bundle = export_web(model, output, _shapes(shape), dims_of(dim), f16=f16)
        weights = bundle["weights"]["bytes"] / 1e6
        made = f"{len(bundle['plans'])} plan(s), {len(bundle['kernels'])} kernels, {weights:.1f} MB of weights"
        console.print(f"{output}: {made}", highlight=False, soft_wrap=True)
        if server is not None:
            url = f"http://127.0.0.1:{server.server_port}/{'?beside' if beside is not None else ''}"
            console.print(f"{url} (Ctrl-C ends it)", highlight=False, soft_wrap=True)
            server.serve_forever()


def _server(folder: Path, port: int, beside: Path | None, model: Path) -> ThreadingHTTPServer:
    """A server of the bundle, bound before the work of making one. Raises InputError."""
    from ..web.serve import server_for

    return server_for(folder, port, _beside(beside, model) if beside is not None else {})


def _beside(folder: Path, model: Path) -> dict[str, Path]:
    """What the page finds of the other runtime, by URL."""
    if not (folder / RUNTIME).is_file():
        raise InputError(f"{folder} holds no {RUNTIME}: give the dist folder of the npm package onnxruntime-web.")
    return {"/beside": folder.resolve(), "/model.onnx": model.resolve()}


def _shapes(items: Sequence[str] | None) -> list[dict[str, tuple[int, ...]]] | None:
    """Sizes from `--shape` options: a name that comes again begins another size."""
    sizes: list[dict[str, tuple[int, ...]]] = []
    for item in items or ():
        name, _, text = item.partition("=")
        parts = text.split(",") if text else []
        if not parts or not all(is_number(p.strip()) for p in parts):
            raise InputError(f"A shape is given as NAME=1,3,224,224, not {item!r}.")
        if not sizes or name in sizes[-1]:
            sizes.append({})
        sizes[-1][name] = tuple(int(p) for p in parts)
    return sizes or None
