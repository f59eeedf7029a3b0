"""What every device gives the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..model import Note


class Executable(Protocol):
    """A model made ready for one device."""

    @property
    def notes(self) -> Sequence[Note]:
        """What was rewritten, refused or left to the host, and why."""

    @property
    def plan(self) -> Any:
        """The plan of the last run: plain data, or None before the first."""

    def run(self, output_names: Sequence[str], feeds: Mapping[str, Any], keep_on_device: bool = False) -> list[Any]:
        """Run once; `feeds` have been checked against the model."""

    def close(self) -> None:
        """Free everything; a second call does nothing."""
