"""What `export_web` is given, checked: every slip is an InputError that says what, where and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..model import Model
from ..model.shapes import bind_dims

Shapes = Mapping[str, Sequence[int]]
EXAMPLE = '{"x": (1, 3, 224, 224)}, or a list of such dicts'


def checked_folder(given: Any) -> Path:
    """The folder for a bundle: one that is not there yet, is empty, or holds a bundle, whose files may be replaced.

    Raises:
        InputError: no path, or a folder whose files are somebody's.
    """
    if not isinstance(given, str | PathLike) or not str(given) or "\0" in str(given):
        raise InputError(f"A bundle is written to a folder, given by its path, not {_short(given)}.")
    path = Path(given)
    try:
        files = sorted(f.name for f in path.iterdir() if not f.name.startswith(".")) if path.exists() else []
    except (OSError, ValueError) as error:
        raise InputError(f"{_short(given)} cannot be the folder of a bundle: {error}") from None
    if files and not _is_bundle(path / "plan.json"):
        raise InputError(
            f"{path} holds files that are not a bundle's, as {files[0]}: give a new folder or an empty one."
        )
    return path


def _is_bundle(plan: Path) -> bool:
    try:
        found = json.loads(plan.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"format", "kernels", "plans", "weights"} <= found.keys()


def checked_shapes(given: Any) -> list[dict[str, tuple[int, ...]]] | None:
    """`input_shapes` as a list of sizes; None where there are none. Raises InputError."""
    if given is None:
        return None
    many = [given] if isinstance(given, Mapping) else given
    if isinstance(many, str | bytes) or not isinstance(many, Sequence) or not many:
        raise InputError(f"input_shapes must be shapes by input name, as {EXAMPLE}, not {_short(given)}.")
    return [_one_size(shapes) for shapes in many]


def _one_size(shapes: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(shapes, Mapping):
        raise InputError(f"input_shapes must be shapes by input name, as {EXAMPLE}, not {_short(shapes)} among them.")
    return {_name(name): _shape(name, shape) for name, shape in shapes.items()}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError(f"input_shapes are given by input name, not by {_short(name)}.")
    return name


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    try:
        if isinstance(shape, str | bytes | Mapping | Set):
            raise TypeError
        return tuple(map(_size, shape))
    except (TypeError, ValueError):
        raise InputError(
            f"The shape of input {name!r} must be integers from 0 on, as (1, 3, 224, 224), not {_short(shape)}."
        ) from None


def _size(n: Any) -> int:
    if isinstance(n, bool) or index(n) < 0:
        raise ValueError
    return index(n)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def bound(model: Model, dims: Any) -> Model:
    """`model` with the dimensions in `dims` fixed. Raises InputError."""
    if dims is None:
        return model
    if not isinstance(dims, Mapping):
        raise InputError(f'dims must be sizes by dimension name, as {{"batch": 1}}, not {_short(dims)}.')
    return bind_dims(model, dims) if dims else model
