"""A benchmark as a record: plain data that is printed, saved, and compared with an earlier one."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..version import __version__
from .run import Result

FORMAT = 1


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _machine() -> Mapping[str, Any]:
    return {"system": platform.platform(), "threads": os.cpu_count()}


@dataclass(frozen=True, slots=True)
class Record:
    """The results of one benchmark, with when, where and by which headrace."""

    results: tuple[Result, ...]
    headrace: str = __version__
    date: str = field(default_factory=_now)
    machine: Mapping[str, Any] = field(default_factory=_machine)
    format: int = FORMAT

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Write the record as JSON; `load_record` reads it.

        Raises:
            InputError: the file cannot be written.
        """
        try:
            Path(path).write_text(json.dumps(self.as_dict()), encoding="utf-8")
        except OSError as error:
            raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error


def load_record(path: str | Path) -> Record:
    """The record that `headrace bench --save` or `--json` wrote.

    Raises:
        InputError: no such file, or not a record of this format.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise InputError(
                f"{path} has format {data['format']}; this headrace reads {FORMAT}: run the benchmark anew."
            )
        results = [Result(**{**r, "spread": {n: tuple(s) for n, s in r["spread"].items()}}) for r in data["results"]]
        return Record(**{**data, "results": tuple(results)})
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a record that `headrace bench --save` wrote.") from error


@dataclass(frozen=True, slots=True)
class Change:
    """One case then and now: median milliseconds, and whether the spreads (10th to 90th percentile) lie apart."""

    name: str
    before_ms: float
    now_ms: float
    certain: bool

    @property
    def times_faster(self) -> float:
        """More than 1 where it became faster."""
        return self.before_ms / self.now_ms


def changes(new: Record, old: Record) -> Sequence[Change]:
    """headrace's own times in the cases that both records have, on the same device."""
    before = {(r.name, r.device): r for r in old.results}
    found = []
    for r in new.results:
        was = before.get((r.name, r.device))
        if was is not None:
            (low, high), (old_low, old_high) = r.spread["headrace"], was.spread["headrace"]
            apart = high < old_low or old_high < low
            found.append(Change(r.name, was.ms["headrace"], r.ms["headrace"], apart))
    return found
