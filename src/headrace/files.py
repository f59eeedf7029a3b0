"""Records as JSON files of the user's: what goes wrong is told in our words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .errors import InputError

Record = TypeVar("Record")


def write_text(path: str | Path, text: str) -> None:
    """Write a file.

    Raises:
        InputError: it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error


def read_record(path: str | Path, format: int, written_by: str, make: Callable[[dict[str, Any]], Record]) -> Record:
    """What `make` builds of the JSON in a file that `written_by` wrote.

    Raises:
        InputError: no such file, another format, or not such a record.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["format"] != format:
            raise InputError(f"{path} has format {data['format']}; this headrace reads format {format}: make it anew.")
        return make(data)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a record that `{written_by}` wrote.") from error
