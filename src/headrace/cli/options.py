"""What the commands share: their common options, how these are read, and the spinner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..errors import InputError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
console, errors = (Console(stderr=e, markup=False, emoji=False) for e in (False, True))  # names are printed as they are

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Size of a symbolic dimension.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu or webgpu.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="CPU threads; default all cores.")]
HostNodesOption = Annotated[
    list[str] | None, typer.Option("--host-node", metavar="NODE", help="A node to run on the host; again for more.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
InputsOption = Annotated[
    list[str] | None, typer.Option("-i", "--input", metavar="NAME=FILE.npy", help="An input; random if not given.")
]


def dims_of(items: Sequence[str] | None) -> dict[str, int]:
    dims = {}
    for item in items or ():
        name, _, size = item.partition("=")
        if not is_number(size) or int(size) < 1:
            raise InputError(f"A dimension is given as NAME=SIZE with a positive size, not {item!r}.")
        dims[name] = int(size)
    return dims


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class busy:
    """A spinner on stderr, when it is a terminal, for what takes longer than a moment."""

    def __init__(self, text: str) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._progress = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
        self._text = text

    def __enter__(self) -> Any:
        self._progress.start()
        task = self._progress.add_task(self._text, total=None)
        return lambda text: self._progress.update(task, description=text)

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()


def read_inputs(items: Sequence[str], known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    feeds = {}
    for item in items:
        name, _, file = item.partition("=")
        if not file:
            raise InputError(f"An input is given as NAME=FILE.npy, not {item!r}.")
        try:
            feeds[name] = np.load(file, allow_pickle=False)
        except OSError as error:
            raise InputError(f"Cannot read {file} for input {name!r}: {error}") from error
        except (ValueError, EOFError, BadZipFile) as error:
            raise InputError(f"{file} for input {name!r} is no .npy file of numbers: numpy.save writes one.") from error
        if not isinstance(feeds[name], np.ndarray):
            raise InputError(
                f"{file} for input {name!r} holds several arrays (.npz): give one .npy file for each input."
            )
    return feeds
