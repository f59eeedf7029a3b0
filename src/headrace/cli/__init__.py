"""The `headrace` command."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from ..errors import HeadraceError
from ..version import __version__
from . import bench, models, profile, web
from .options import app, console, errors

__all__ = ["app", "bench", "main", "models", "profile", "web"]


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
