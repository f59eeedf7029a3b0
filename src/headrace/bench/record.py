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

from ..decode import decoded
from ..files import read_record, write_text
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
        write_text(path, json.dumps(self.as_dict()))


def load_record(path: str | Path) -> Record:
    """The record that `headrace bench --save` or `--json` wrote.

    Raises:
        InputError: no such file, or not a record of this format.
    """
    return read_record(path, FORMAT, "headrace bench --save", _record)


def _record(data: dict[str, Any]) -> Record:
    found: Record = decoded({name: value for name, value in data.items() if name != "comparison"}, Record)
    if any("headrace" not in times for r in found.results for times in (r.ms, r.spread)):
        raise ValueError("no times of headrace")
    return found


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
