"""Every error that headrace raises on purpose. Each says what, where and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class HeadraceError(Exception):
    """Base of all errors of headrace: catch this one to catch them all."""


class ModelError(HeadraceError):
    """The model cannot be read or is not valid ONNX: truncated, cyclic, missing external data, wrong types."""


@dataclass(frozen=True, slots=True)
class UnsupportedNode:
    """One node that cannot run where it was asked to run."""

    name: str
    op_type: str
    domain: str
    reason: str

    def __str__(self) -> str:
        op = f"{self.domain}::{self.op_type}" if self.domain else self.op_type
        return f"{self.name or '(unnamed)'} [{op}]: {self.reason}"


class UnsupportedOpError(HeadraceError):
    """The model holds nodes that cannot run here. `nodes` lists all of them at once."""

    def __init__(self, nodes: Sequence[UnsupportedNode], hint: str = "") -> None:
        self.nodes, self._hint = tuple(nodes), hint
        lines = [f"{len(self.nodes)} node(s) cannot run here:", *(f"  {node}" for node in self.nodes)]
        super().__init__("\n".join([*lines, hint] if hint else lines))

    def __reduce__(self) -> tuple[object, ...]:
        return (UnsupportedOpError, (self.nodes, self._hint))


class InputError(HeadraceError):
    """What was fed or asked for does not fit the model: unknown or missing name, wrong dtype, rank or dimension."""


class DeviceError(HeadraceError):
    """The device is missing, too small for the work, or was lost."""
