"""Lazy tensors: what the graph walk makes of a model before any kernel exists.

A lazy tensor says how to compute one element from its coordinates. `Scope` (emit.py) turns it into WGSL inside
whichever
kernel reads or writes it. A `Heavy` node is a kernel of its own; its `Result`s are leaves that must be stored, or that
the kernel's epilogue replaces by the value it has just computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from typing import TYPE_CHECKING, ClassVar

import onnx_ir as ir

from ..dtypes import Array, value_type
from .index import Lin, flatten, reshape
from .size import Number, same

if TYPE_CHECKING:
    from .emit import Scope
    from .template import Template

Coords = tuple[Lin, ...]
Shape = tuple[Number, ...]
_serial = count()


class Tensor:
    """Base of all lazy tensors. `serial` orders them: inputs are older than what reads them.

    `node` is the name of the ONNX node that it stands for. `cost` counts scalar operations of this step alone.
    """

    __slots__ = ("cost", "dtype", "inputs", "node", "serial", "shape")
    movement: ClassVar[bool] = False

    def __init__(
        self, shape: Sequence[Number], dtype: ir.DataType, inputs: Sequence[Tensor] = (), node: str = ""
    ) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.inputs: tuple[Tensor, ...] = tuple(inputs)
        self.node = node
        self.cost = 0
        self.serial = next(_serial)

    @property
    def size(self) -> Number:
        """Number of elements."""
        return prod(self.shape)

    @property
    def type(self) -> str:
        """The WGSL type of a value."""
        found = value_type(self.dtype)
        assert found is not None, self.dtype
        return found

    def emit(self, scope: Scope, coords: Coords) -> str:
        """WGSL text of the element at `coords`."""
        raise NotImplementedError

    def inverse(self, argument: int, coords: Coords) -> Coords | None:
        """Where the element at `coords` of input `argument` goes here, if each goes to exactly one place; else None."""
        return None


class Buffer(Tensor):
    """A tensor in a device buffer: an input of the run, a constant, or what another kernel stores."""

    __slots__ = ("data", "half", "name", "stored")

    def __init__(
        self, name: str, shape: Sequence[Number], dtype: ir.DataType, data: Array | None = None, half: bool = False
    ) -> None:
        super().__init__(shape, dtype)
        self.name, self.data = name, data
        self.half = half  # a float constant that may be rounded to float16 in storage

    def emit(self, scope: Scope, coords: Coords) -> str:
        return scope.load(self, flatten(coords, self.shape))


class Fill(Tensor):
    """One number everywhere; it is a uniform of the kernel, so its value changes no text."""

    __slots__ = ("value",)

    def __init__(self, value: float | Number | bool, shape: Sequence[Number], dtype: ir.DataType) -> None:
        super().__init__(shape, dtype)
        self.value = value

    def emit(self, scope: Scope, coords: Coords) -> str:
        if self.type == "bool":
            return "true" if self.value else "false"
        return scope.param(self.value, self.type)


class Iota(Tensor):
    """`start + step * coordinate` along one axis: ranges and position ids, without an upload."""

    __slots__ = ("axis", "start", "step")

    def __init__(
        self, shape: Sequence[Number], dtype: ir.DataType, axis: int, start: float | Number, step: float | Number
    ) -> None:
        super().__init__(shape, dtype)
        self.axis, self.start, self.step = axis, start, step

    def emit(self, scope: Scope, coords: Coords) -> str:
        c = coords[self.axis]
        if self.type == "f32":
            return f"({scope.param(self.start, 'f32')} + {scope.param(self.step, 'f32')} * f32({scope.lin(c)}))"
        text = scope.lin(c * _whole(self.step) + _whole(self.start))
        return text if self.type == "i32" else f"u32({text})"


def _whole(n: float | Number) -> Number:
    return int(n) if isinstance(n, float) else n


class Map(Tensor):
    """A pointwise function of tensors of its own shape. `text` is WGSL with {0}, {1} for the arguments."""

    __slots__ = ("helper", "text")

    def __init__(
        self, text: str, args: Sequence[Tensor], dtype: ir.DataType, node: str, cost: int = 1, helper: str = ""
    ) -> None:
        super().__init__(args[0].shape, dtype, args, node)
        self.text, self.cost, self.helper = text, cost, helper

    def emit(self, scope: Scope, coords: Coords) -> str:
        if self.helper:
            scope.need_helper(self.helper)
        return self.text.format(*(scope.value(x, coords) for x in self.inputs))

    def inverse(self, argument: int, coords: Coords) -> Coords | None:
        return coords


class View(Tensor):
    """An index map: the element at `coords` is the source's element at `source(coords)`.

    `back` maps source coordinates to coordinates here where the map is one to one (transpose, reshape).
    """

    __slots__ = ("back", "kind", "source")
    movement = True

    def __init__(
        self,
        kind: str,
        x: Tensor,
        shape: Sequence[Number],
        source: Callable[[Coords], Coords],
        node: str,
        back: Callable[[Coords], Coords] | None = None,
    ) -> None:
        super().__init__(shape, x.dtype, (x,), node)
        self.kind, self.source, self.back = kind, source, back

    def emit(self, scope: Scope, coords: Coords) -> str:
        return scope.value(self.inputs[0], self.source(coords))

    def inverse(self, argument: int, coords: Coords) -> Coords | None:
        return self.back(coords) if self.back else None


def reshaped(x: Tensor, shape: Sequence[Number], node: str = "") -> Tensor:
    """`x` with another shape of as many elements. Raises ValueError for a shape of more or fewer."""
    shape = tuple(shape)
    if same(shape, x.shape):
        return x
    if prod(shape) != x.size:
        raise ValueError(f"{list(x.shape)} cannot become {list(shape)}")
    old = x.shape
    return View("reshape", x, shape, lambda c: reshape(c, shape, old), node, lambda c: reshape(c, old, shape))


def transposed(x: Tensor, perm: Sequence[int], node: str = "") -> Tensor:
    """`x` with its axes in the order `perm`."""
    perm = tuple(perm)
    if perm == tuple(range(len(perm))):
        return x
    place = [perm.index(i) for i in range(len(perm))]
    shape = [x.shape[p] for p in perm]
    return View("transpose", x, shape, lambda c: tuple(c[i] for i in place), node, lambda c: tuple(c[p] for p in perm))


def expanded(x: Tensor, shape: Sequence[Number], node: str = "") -> Tensor:
    """`x` broadcast to `shape` by ONNX's (numpy's) rules."""
    shape = tuple(shape)
    if same(shape, x.shape):
        return x
    if isinstance(x, Fill):
        return Fill(x.value, shape, x.dtype)
    if same(prod(shape), x.size):
        return reshaped(x, shape, node)
    lead, old = len(shape) - len(x.shape), x.shape
    keep = [same(n, m) or n != 1 for n, m in zip(old, shape[lead:], strict=True)]
    from .index import ZERO

    return View("expand", x, shape, lambda c: tuple(c[lead + i] if k else ZERO for i, k in enumerate(keep)), node)


class Stored(Tensor):
    """A tensor that is worth storing as it is: a small copy that makes every later read simple."""

    __slots__ = ()
    movement = True

    def __init__(self, x: Tensor, node: str) -> None:
        super().__init__(x.shape, x.dtype, (x,), node)

    def emit(self, scope: Scope, coords: Coords) -> str:
        return scope.value(self.inputs[0], coords)

    def inverse(self, argument: int, coords: Coords) -> Coords | None:
        return coords


class Heavy:
    """One kernel: a template and what it reads. `results` are its outputs. A pass may replace `template` and `inputs`
    (attention made of two matrix products and a softmax) before kernels are made; nothing changes it afterwards."""

    __slots__ = ("inputs", "node", "nodes", "results", "template")

    def __init__(
        self,
        template: Template,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[Sequence[Number], ir.DataType]],
        node: str,
    ) -> None:
        self.template, self.inputs, self.node = template, tuple(inputs), node
        self.nodes: tuple[str, ...] = (node,)
        self.results = tuple(Result(self, i, shape, dtype) for i, (shape, dtype) in enumerate(outputs))


class Result(Tensor):
    """An output of a heavy kernel."""

    __slots__ = ("heavy", "index")

    def __init__(self, heavy: Heavy, index: int, shape: Sequence[Number], dtype: ir.DataType) -> None:
        super().__init__(shape, dtype, heavy.inputs, heavy.node)
        self.heavy, self.index = heavy, index
