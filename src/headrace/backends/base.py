"""What every device gives the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..model import Note
from .spans import Phases, Recorder


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

    @property
    def phases(self) -> Phases:
        """Where the time of a cold start went."""

    def run(
        self,
        output_names: Sequence[str],
        feeds: Mapping[str, Any],
        keep_on_device: bool = False,
        recorder: Recorder | None = None,
    ) -> list[Any]:
        """Run once; `feeds` have been checked against the model. `recorder` is told what takes time, if this is
        `profiled`."""

    def profiled(self) -> Executable:
        """An executable of the same model that records: itself, or another one that the caller closes."""

    def collect(self, feeds: Mapping[str, Any]) -> None:
        """After the last recorded run: give the recorders what arrives only now. `feeds` as they were run."""

    def close(self) -> None:
        """Free everything; a second call does nothing."""
