"""What must hold of a node's operands before it is lowered. A check gives the reason why they do not fit, or None.

Shapes may hold sizes that are expressions: an equality asked here is a guard of the plan, as it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.known import SizeArray
from .registry import Call, Refuse

Check = Callable[[Call], str | None]
CHECKS: dict[str, Check] = {}


def misfit(call: Call) -> str | None:
    """Why the operands of an ONNX node do not fit together; None where they do."""
    check = CHECKS.get(call.op_type)
    return check(call) if check else None


GROWING = {"Add", "Sub", "Mul", "Pow", "Sum", "BitwiseNot", "MatMul", "Gemm", "Einsum", "CumSum", "CumProd"}
GROWING |= {"ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"}


def check_width(call: Call) -> None:
    """Raise Refuse for arithmetic on uint64: its results may need the bits that the device does not have, and the
    32 bits that it would give instead are another number. int64, which shapes and indices are made of, is let through.
    """
    left = call.op_type == "BitShift" and call.attr("direction") == "LEFT"
    if (call.op_type in GROWING or left) and call.has(0) and call.dtype(0) == ir.DataType.UINT64:
        raise Refuse("uint64 arithmetic, of which the device has 32 bits")


def negative_size(shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a result would have less than nothing along an axis."""
    return any(n < 0 for shape in shapes for n in shape)


def _check(*names: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, function))
        return function

    return register


def _fixed(call: Call, i: int) -> Array | None:
    """Input `i` if its numbers are known here; sizes that are expressions are not."""
    value = call.known(i)
    return None if value is None or isinstance(value, SizeArray) else value


def _axis(call: Call, name: str, default: int, rank: int) -> int:
    return int(call.attr(name, default)) % max(rank, 1)


@_check("MatMul", "MatMulInteger", "FusedMatMul")
def _matmul(call: Call) -> str | None:
    a, b = call.shape(0), call.shape(1)
    if not a or not b:
        return "a matrix product takes no scalars"
    if call.op_type == "FusedMatMul":
        return None
    rows = b[-2] if len(b) > 1 else b[-1]
    return None if a[-1] == rows else f"{a[-1]} columns do not meet {rows} rows"


@_check("Gemm")
def _gemm(call: Call) -> str | None:
    a, b = call.shape(0), call.shape(1)
    if len(a) != 2 or len(b) != 2:
        return "both factors must be matrices"
    columns, rows = a[0 if call.attr("transA", 0) else 1], b[1 if call.attr("transB", 0) else 0]
    return None if columns == rows else f"{columns} columns do not meet {rows} rows"


@_check("Conv", "ConvInteger", "QLinearConv", "ConvTranspose")
def _convolution(call: Call) -> str | None:
    weight = 3 if call.op_type == "QLinearConv" else 1
    x, w, groups = call.shape(0), call.shape(weight), call.attr("group", 1)
    if len(x) != len(w) or len(x) < 3:
        return f"a tensor of rank {len(x)} and weights of rank {len(w)}"
    turned = call.op_type == "ConvTranspose"
    wanted = w[0] if turned else w[1] * groups
    if x[1] != wanted:
        return f"{x[1]} channels, where the weights are for {wanted}"
    if w[0] % groups:
        return f"{w[0]} rows of weights in {groups} groups"
    kernel = call.attr("kernel_shape")
    if kernel is not None and tuple(kernel) != tuple(w[2:]):
        return f"kernel_shape {list(kernel)} and weights of {list(w[2:])}"
    bias = {"Conv": 2, "ConvTranspose": 2, "QLinearConv": 8}.get(call.op_type)
    channels = w[1] * groups if turned else w[0]
    if bias is not None and call.has(bias) and call.shape(bias) != (channels,):
        return f"a bias of {list(call.shape(bias))} for {channels} channels"
    return None


@_check("Concat")
def _concat(call: Call) -> str | None:
    shapes = [call.shape(i) for i in range(len(call.inputs))]
    rank = len(shapes[0])
    axis = _axis(call, "axis", 1, rank)
    for s in shapes[1:]:
        if len(s) != rank or any(n != m for a, (n, m) in enumerate(zip(shapes[0], s, strict=True)) if a != axis):
            return f"they differ elsewhere than along axis {axis}"
    return None


@_check("Transpose")
def _transpose(call: Call) -> str | None:
    perm, rank = call.attr("perm"), len(call.shape(0))
    return (
        None if perm is None or sorted(perm) == list(range(rank)) else f"perm {list(perm)} is no order of {rank} axes"
    )


def _outside(index: Array, n: Any) -> str | None:
    """Whether known indices leave an axis of size `n`."""
    if not index.size:
        return None
    low, high = int(index.min()), int(index.max())
    if low >= -n and high < n:
        return None
    return f"indices from {low} to {high} in an axis of {n}"


@_check("Gather", "GatherElements", "ScatterElements", "Scatter")
def _gather(call: Call) -> str | None:
    x, index = call.shape(0), _fixed(call, 1)
    if index is None or not x:
        return None
    return _outside(index, x[_axis(call, "axis", 0, len(x))])


@_check("GatherND", "ScatterND")
def _gather_nd(call: Call) -> str | None:
    x, index, batch = call.shape(0), _fixed(call, 1), call.attr("batch_dims", 0)
    if batch + call.shape(1)[-1] > len(x):
        return f"index tuples of {call.shape(1)[-1]} for rank {len(x)}"
    if index is None:
        return None
    said = (_outside(index[..., k], x[batch + k]) for k in range(index.shape[-1]))
    return next((s for s in said if s), None)


@_check("TopK")
def _top_k(call: Call) -> str | None:
    x, k = call.shape(0), _fixed(call, 1) if call.has(1) else np.array(call.attr("k"))
    if k is None or not x:
        return None
    n, wanted = x[_axis(call, "axis", -1, len(x))], int(k.ravel()[0])
    return f"the best {wanted} of {n}" if wanted > n or wanted < 0 else None


@_check("Slice")
def _slice(call: Call) -> str | None:
    axes = _fixed(call, 3) if call.has(3) else np.array(call.attr("axes") or ())
    steps, rank = _fixed(call, 4) if call.has(4) else None, len(call.shape(0))
    if steps is not None and not steps.all():
        return "a step of 0"
    return _axes(axes, rank)


def _axes(axes: Array | None, rank: int) -> str | None:
    if axes is None or not axes.size:
        return None
    if axes.min() < -rank or axes.max() >= rank:
        return f"axes {axes.ravel().tolist()} of rank {rank}"
    return "an axis twice" if len({int(a) % rank for a in axes.ravel()}) < axes.size else None


@_check("Unsqueeze", "Squeeze")
def _squeeze(call: Call) -> str | None:
    axes = _fixed(call, 1) if call.has(1) else np.array(call.attr("axes") or ())
    rank = len(call.shape(0))
    if call.op_type == "Squeeze" or axes is None:
        return _axes(axes, rank)
    return _axes(axes, rank + axes.size)


@_check("Split")
def _split(call: Call) -> str | None:
    x, sizes = call.shape(0), _fixed(call, 1) if call.has(1) else np.array(call.attr("split") or ())
    if sizes is None or not sizes.size or not x:
        return None
    n = x[_axis(call, "axis", 0, len(x))]
    return None if (sizes >= 0).all() and int(sizes.sum()) == n else f"parts of {sizes.ravel().tolist()} from {n}"


@_check("Pad")
def _pad(call: Call) -> str | None:
    x, pads = call.shape(0), _fixed(call, 1) if call.has(1) else np.array(call.attr("pads") or ())
    axes = _fixed(call, 3) if call.has(3) else np.arange(len(x))
    if pads is None or axes is None:
        return None
    if pads.size != 2 * axes.size:
        return f"{pads.size} pads for {axes.size} axes"
    for k, a in enumerate(axes.ravel()):
        n, before, after = x[int(a)], int(pads.ravel()[k]), int(pads.ravel()[axes.size + k])
        if n + before + after < 0:
            return f"pads of {before} and {after} take more than the {n} of axis {int(a)}"
        if call.attr("mode", "constant") == "reflect" and max(before, after) > 0 and max(before, after) >= n:
            return f"a reflection by {max(before, after)} of an axis of {n}"
    return None


@_check("BatchNormalization", "InstanceNormalization")
def _per_channel(call: Call) -> str | None:
    x = call.shape(0)
    if len(x) < 2:
        return None
    wrong = [i for i in range(1, len(call.inputs)) if call.has(i) and call.shape(i) != (x[1],)]
    return (
        f"input {wrong[0]} has shape {list(call.shape(wrong[0]))}, not one number for each of {x[1]} channels"
        if wrong
        else None
    )


@_check("Tile")
def _tile(call: Call) -> str | None:
    repeats, rank = call.shape(1), len(call.shape(0))
    return None if call.opset < 6 or repeats == (rank,) else f"{list(repeats)} repeats for rank {rank}"


@_check("Resize")
def _resize(call: Call) -> str | None:
    rank = len(call.attr("axes") or call.shape(0))
    first = 1 if call.opset < 11 else 2
    for i in range(first, 4):
        if call.has(i) and call.shape(i) not in ((0,), (rank,)):
            return f"{list(call.shape(i))} scales or sizes for {rank} axes"
    return None


@_check("OneHot")
def _one_hot(call: Call) -> str | None:
    depth = _fixed(call, 1)
    return None if depth is None or depth.ravel()[0] > 0 else f"a depth of {depth.ravel()[0]}"


@_check("ConstantOfShape", "Expand")
def _shape(call: Call) -> str | None:
    shape = _fixed(call, 0 if call.op_type == "ConstantOfShape" else 1)
    return None if shape is None or (shape >= 0).all() else f"the shape {shape.ravel().tolist()}"


@_check("Range")
def _range(call: Call) -> str | None:
    step = _fixed(call, 2)
    return None if step is None or step.all() else "a step of 0"


@_check("Div", "Mod")
def _divide(call: Call) -> str | None:
    divisor = _fixed(call, 1)
    zero = divisor is not None and divisor.dtype.kind in "iu" and not divisor.all()
    return "an integer division by zero" if zero else None


@_check("RNN", "GRU", "LSTM")
def _recurrent(call: Call) -> str | None:
    x, w, r = (call.shape(i) for i in range(3))
    if len(x) != 3 or len(w) != 3 or len(r) != 3:
        return "the input and both weights must have rank 3"
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[call.op_type]
    if x[-1] != w[-1] or w[1] != gates * r[-1] or r[1] != gates * r[-1]:
        return f"weights of {list(w)} and {list(r)} for inputs of {x[-1]}"
    return None


WINDOWS = {"Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "LpPool"}


def window_misses(op_type: str, inside: Sequence[int], outside: Sequence[int] = ()) -> bool:
    """Whether a window is larger than its padded input, so that it fits nowhere."""
    return op_type in WINDOWS and any(n < 1 <= m for m, n in zip(inside[2:], outside[2:], strict=False))
