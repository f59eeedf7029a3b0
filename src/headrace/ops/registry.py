"""The table of operators: what each lowering declares, and the call that it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir

from ..dtypes import Array, value_type
from ..kernels.expr import Buffer, Fill, Heavy, Iota, Tensor, expanded
from ..kernels.known import SizeArray, dtype_of
from ..kernels.size import broadcast_shapes
from ..kernels.template import Template
from ..model import Note
from ..target import Target

Value = Tensor | Array
Outputs = Value | Sequence[Value | None]
Lowering = Callable[["Call"], Outputs]
HALVED_FROM = 256  # elements of a weight that is worth storing in 16 bits
F = TypeVar("F", bound=Callable[["Call"], Any])


class Refuse(Exception):
    """A node that has no kernel as it stands; the text says why, and reaches `explain` and UnsupportedOpError."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operator: the opset since which its lowering holds, the dtypes it takes, and the inputs whose values must be
    known on the host (shapes, axes, pads)."""

    name: str
    lower: Lowering
    domain: str = ""
    since: int = 7
    dtypes: str = "float"
    known: tuple[int, ...] = ()
    note: str = ""


OPS: dict[tuple[str, str], Op] = {}


def op(
    *names: str, domain: str = "", since: int = 7, dtypes: str = "float", known: tuple[int, ...] = (), note: str = ""
) -> Callable[[F], F]:
    """Register a lowering under one or more operator names."""

    def register(function: F) -> F:
        for name in names:
            OPS[domain, name] = Op(name, function, domain, since, dtypes, known, note)
        return function

    return register


@dataclass(slots=True)
class Call:
    """One node while it is lowered: its inputs, attributes and where it may put derived constants."""

    node: str
    op_type: str
    inputs: list[Value | None]
    attributes: dict[str, Any]
    opset: int
    target: Target
    outputs: int = 1
    lift: Callable[[Array, str], Tensor] = field(default=lambda a, n: to_tensor(a, n))
    name_of: Callable[[Array], str | None] = field(default=lambda a: None)
    tell: Callable[[Note], None] = field(default=lambda note: None)

    def note(self, text: str, refused: bool = False) -> None:
        """Say what became of the node, or what was not done to it and why."""
        self.tell(Note("lower", self.node, text, refused))

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def x(self, i: int) -> Tensor:
        """Input `i` as a lazy tensor. Raises Refuse where the device cannot hold its dtype."""
        value = self.inputs[i]
        assert value is not None, f"{self.op_type} needs input {i}"
        return value if isinstance(value, Tensor) else self.lift(value, self.node)

    def known(self, i: int) -> Array | None:
        """Input `i` if its value is known on the host."""
        value = self.inputs[i] if i < len(self.inputs) else None
        return value if isinstance(value, np.ndarray) else None

    def need(self, i: int, what: str) -> Array:
        """Input `i`, which must be known on the host. Raises Refuse otherwise."""
        value = self.known(i)
        if value is None:
            raise Refuse(f"its {what} (input {i}) are computed on the device, and shapes must be known before it runs")
        return value

    def ints(self, i: int, what: str) -> list[int]:
        """Known input `i` as a list of ints, or of sizes that stand for ints."""
        values = self.need(i, what).ravel()
        return list(values) if isinstance(values, SizeArray) else [int(v) for v in values]

    def shape(self, i: int = 0) -> tuple[int, ...]:
        """Shape of input `i`."""
        value = self.inputs[i]
        assert value is not None
        return tuple(value.shape)

    def dtype(self, i: int = 0) -> ir.DataType:
        """ONNX dtype of input `i`."""
        value = self.inputs[i]
        assert value is not None
        return value.dtype if isinstance(value, Tensor) else ir.DataType.from_numpy(dtype_of(value))

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value (tuples for lists, str for strings)."""
        return self.attributes.get(name, default)

    def heavy(self, template: Template, inputs: Sequence[Tensor], shape: Sequence[int], dtype: ir.DataType) -> Tensor:
        """A kernel with one output."""
        return Heavy(template, inputs, [(shape, dtype)], self.node).results[0]

    def packed(self, i: int, how: str, pack: Callable[[Array], Array]) -> Tensor:
        """A constant input packed once for its kernel; `how` names the packing. Raises Refuse if it is not constant."""
        value = self.need(i, "weights")
        return packed(self, value, how, pack)


def packed(call: Call, value: Array, how: str, pack: Callable[[Array], Array]) -> Tensor:
    """`pack(value)` as a constant, made once for a weight that stays."""
    name = call.name_of(value)
    if name is None:
        return call.lift(pack(value), call.node)
    cache: dict[str, Array] = call.lift.__self__.packings  # type: ignore[attr-defined]
    key = f"{name}|{how}"
    if key not in cache:
        cache[key] = np.ascontiguousarray(pack(value))
    array = cache[key]
    half = in_half(array, call.target)
    return Buffer(key, array.shape, ir.DataType.from_numpy(array.dtype), array, half)


def in_half(array: Array, target: Target) -> bool:
    """Whether a weight of the model is stored as float16: where that loses nothing (a Cast has widened it), or where
    the target allows rounding, for large arrays of more than one axis without values beyond float16."""
    if not target.packed or array.dtype != np.float32 or array.size < HALVED_FROM:
        return False
    if _exact(array.reshape(-1)[:HALVED_FROM]) and _exact(array):
        return True
    rounded = target.half_weights and array.ndim > 1
    return bool(rounded and np.abs(array).max() <= np.finfo(np.float16).max)


def _exact(array: Array) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(array, array.astype(np.float16).astype(np.float32))


def check_loops(call: Call, iterations: int, what: str) -> None:
    """Raise Refuse where `what` makes a thread go through its loops more often than the adapter allows."""
    if iterations > call.target.loops:
        raise Refuse(f"{what}: more iterations of one thread than the {call.target.loops} that this adapter may make")


def remembered(call: Call, key: str, make: Callable[[], Any]) -> Any:
    """What `make` found out about a weight, kept as long as the model."""
    memo: dict[str, Any] = call.lift.__self__.memo  # type: ignore[attr-defined]
    if key not in memo:
        memo[key] = make()
    return memo[key]


def to_tensor(array: Array, name: str) -> Tensor:
    """A known value as a lazy tensor: a number, a range along one axis, or a constant buffer called `name`."""
    dtype = ir.DataType.from_numpy(array.dtype)
    if value_type(dtype) is None:
        raise Refuse(f"{array.dtype} has no form on the device")
    if array.size == 0:
        return Fill(0, array.shape, dtype)
    if array.size == 1 or not any(array.strides):
        first = array.ravel()[:1] if array.size == 1 else array[(slice(0, 1),) * array.ndim].ravel()
        value = first[0].item() if dtype != ir.DataType.BFLOAT16 else float(first[0])
        if value_type(dtype) in ("i32", "u32") and not -(2**31) <= value < 2**32:
            raise Refuse(f"the constant {value} does not fit 32 bits")
        return Fill(value, array.shape, dtype)
    found = _as_iota(array, dtype)
    return found if found is not None else Buffer(name, array.shape, dtype, array)


def _as_iota(array: Array, dtype: ir.DataType) -> Tensor | None:
    if array.dtype.kind != "i" or array.size > 1 << 16:
        return None
    long = [a for a, n in enumerate(array.shape) if n > 1]
    if len(long) != 1:
        return None
    flat = array.ravel()
    steps = np.diff(flat)
    if not (steps == steps[0]).all() or abs(int(flat[0])) >= 2**31 or abs(int(flat[-1])) >= 2**31:
        return None
    return Iota(array.shape, dtype, long[0], int(flat[0]), int(steps[0]))


def broadcast(tensors: Sequence[Tensor], node: str) -> list[Tensor]:
    """All tensors expanded to their common shape."""
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return [expanded(t, shape, node) for t in tensors]
