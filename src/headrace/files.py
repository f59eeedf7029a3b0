"""Records as JSON files of the user's: what goes wrong is told in our words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .errors import InputError

Record = TypeVar("Record")


def path_of(path: Any) -> Path:
    """`path` as a Path.

    Raises:
        InputError: it is no str or Path, is empty, or holds a NUL.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise InputError(f"The path of a file is a str or a Path, not {path!r}.")
    name = os.fspath(path)
    if not name or "\0" in name:
        raise InputError(f"No file can be called {name!r}.")
    return Path(name)


def write_text(path: str | Path, text: str) -> None:
    """Write a file.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path_of(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error


def check_writable(*paths: str | Path | None) -> None:
    """Find out before long work whether files can be written after it; None is no file.

    Raises:
        InputError: one of them cannot.
    """
    for path in (path_of(p) for p in paths if p is not None):
        try:
            exists = path.exists()
        except OSError as error:  # a name that is too long, or a folder that must not be looked into
            raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
        if path.is_dir():
            raise InputError(f"Cannot write {path}: it is a folder.")
        if not exists and not path.parent.is_dir():
            raise InputError(f"Cannot write {path}: there is no folder {path.parent}.")
        if not os.access(path if exists else path.parent, os.W_OK):
            raise InputError(f"Cannot write {path}: permission denied.")


def read_record(path: str | Path, format: int, written_by: str, make: Callable[[dict[str, Any]], Record]) -> Record:
    """What `make` builds of the JSON in a file that `written_by` wrote.

    Raises:
        InputError: no such file, another format, or not such a record.
    """
    file = path_of(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["format"] != format:
            raise InputError(f"{path} has format {data['format']}; this headrace reads format {format}: make it anew.")
        return make(data)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} is not a record that `{written_by}` wrote.") from error
