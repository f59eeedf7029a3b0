"""What every device gives the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..model import Note


def is_device_array(value: Any) -> bool:
    """Whether it is what `keep_on_device` gives: known by an attribute, since wgpu-py may be missing."""
    return hasattr(value, "onnx_dtype")


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
