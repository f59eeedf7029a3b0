"""What a heavy kernel declares: what it reads (`Operand`), and how its text and launch are made (`Template.build`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..target import Target
from .emit import KernelText
from .expr import Buffer, Coords, Tensor
from .helpers import body
from .index import Lin
from .size import Number, Size

Store = Callable[[Coords], Coords]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is started: workgroups in x, y, z, and the work it does."""

    body: str
    groups: tuple[Number, Number, Number]
    flops: Number = 0
    workgroup: tuple[int, int, int] = (64, 1, 1)
    workgroup_bytes: int = 0


@dataclass(slots=True)
class Build:
    """One kernel while it is written. `outputs` are (result index or -1, tensor, buffer, result coordinates -> its
    own)."""

    text: KernelText
    target: Target
    inputs: tuple[Tensor, ...]
    outputs: list[tuple[int, Tensor, Buffer, Store]] = field(default_factory=list)
    results: tuple[Tensor, ...] = ()
    nonaffine: list[int] = field(default_factory=list)

    def read(
        self,
        name: str,
        index: int,
        coords: Coords,
        row: Sequence[str],
        at: Sequence[str] = (),
        *,
        any_map: bool = False,
        x: Tensor | None = None,
    ) -> None:
        """Write the reader(s) `name` of input `index`. With `at`, a map that is not affine in it is reported, and the
        planner stores that input first, unless `any_map`."""
        self.text.affine = True
        self.text.reader(name, x or self.inputs[index], coords, row, at)
        if not self.text.affine and not any_map:
            self.nonaffine.append(index)

    def store(
        self,
        name: str,
        variables: Sequence[str],
        coords: Sequence[Coords],
        values: Sequence[tuple[str, str]],
        guard: Sequence[tuple[Lin, Number]] = (),
    ) -> None:
        """Write the function `name(variables..., values...)` that finishes and stores one element: `coords` and
        `values`
        have one entry a result of the kernel. `guard`: it stores only where each expression is in [0, extent)."""
        bound = {r.serial: v[0] for r, v in zip(self.results, values, strict=True)}
        outputs = [(x, buffer, place(coords[i])) for i, x, buffer, place in self.outputs]
        self.text.writer(name, outputs, bound, variables, values, guard)


class Template:
    """A kind of kernel with its compile-time parameters. Subclasses are frozen dataclasses."""

    name = "kernel"
    costly_reads = False  # each input element is read many times: what is costly to compute is stored first
    stored_reads = False  # what it reads is stored, so that another reader has the same numbers to the last bit

    def bound(self) -> set[int]:
        """Serials of tensors inside its inputs that the kernel computes itself."""
        return set()

    def build(self, b: Build) -> Launch:
        """Write readers, writers, constants and uniforms; return the launch."""
        raise NotImplementedError


def wgsl(file: str, name: str) -> str:
    """The `.wgsl` body `name` that lies beside the Python file `file`."""
    return body(Path(file).parent / name)


def ceil_div(a: Number, b: Number) -> Number:
    """a / b, rounded up."""
    return (a + b - 1) // b


def spread(count: Number, limit: int) -> tuple[Number, Number]:
    """Workgroups in x and y for a linear `count`, within a limit a dimension."""
    if not isinstance(count, Size) and count <= limit:
        return count, 1
    y = ceil_div(count, limit)
    return ceil_div(count, y), y
