"""Models with dynamic dimensions whose one plan must be right at every size it admits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .models import inverse_dft_basis, model_of, normal, one_node

node = helper.make_node
I64 = np.int64


def image(
    nodes: list[Any], constants: dict[str, np.ndarray], x: Any = ("n", 3, "h", "w"), opset: int = 18
) -> onnx.ModelProto:
    return model_of(nodes, {"x": x}, ["y"], constants, opset=opset)


def conv_chain() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w1"], ["a"], strides=[2, 2], pads=[3, 3, 3, 3]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["c", "w2"], ["d"], pads=[1, 1, 1, 1]),
        node("Conv", ["d", "w3"], ["e"], strides=[2, 2]),
        node("Conv", ["c", "w4"], ["f"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Add", ["e", "f"], ["g"]),
        node("GlobalAveragePool", ["g"], ["h"]),
        node("Mul", ["g", "h"], ["y"]),
    ]
    shapes = {"w1": (8, 3, 7, 7), "w2": (8, 8, 3, 3), "w3": (6, 8, 1, 1), "w4": (6, 8, 3, 3)}
    return image(nodes, {k: normal(s, i) for i, (k, s) in enumerate(shapes.items())})


def attention() -> onnx.ModelProto:
    """Heads split and joined by Shape, Gather and Concat, as exporters write it."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"]),
        node("Gather", ["s", "one"], ["t"]),
        node("Concat", ["b", "t", "four", "eight"], ["split"], axis=0),
        node("Concat", ["b", "t", "minus"], ["join"], axis=0),
    ]
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "split"], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [name], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "join"], ["o2"]),
        node("LayerNormalization", ["o2", "g", "g"], ["y"], axis=-1),
    ]
    constants: dict[str, np.ndarray] = {f"w{n}": normal((32, 32), i) / 6 for i, n in enumerate("qkv")}
    ints = {"zero": [0], "one": [1], "four": [4], "eight": [8], "minus": [-1]}
    constants |= {k: I64(v) for k, v in ints.items()} | {"scale": np.float32(0.3), "g": normal((32,), 9)}
    return model_of(nodes, {"x": ("batch", "time", 32)}, ["y"], constants)


def resize(
    mode: str, transform: str, opset: int = 18, scales: list[float] | None = None, **attributes: Any
) -> onnx.ModelProto:
    """To the sizes of another input, or by constant scales."""
    if scales is not None:
        resized = node(
            "Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=transform, **attributes
        )
        return image([resized], {"scales": np.float32(scales)}, opset=opset)
    nodes = [
        node("Shape", ["like"], ["s"]),
        node("Slice", ["s", "two", "four"], ["to"]),
        node("Shape", ["x"], ["s2"]),
        node("Slice", ["s2", "zero", "two"], ["front"]),
        node("Concat", ["front", "to"], ["sizes"], axis=0),
        node(
            "Resize", ["x", "", "", "sizes"], ["y"], mode=mode, coordinate_transformation_mode=transform, **attributes
        ),
    ]
    constants = {"zero": I64([0]), "two": I64([2]), "four": I64([4])}
    inputs = {"x": ("n", 2, "h", "w"), "like": ("n", 1, "p", "q")}
    return model_of(nodes, inputs, ["y"], constants, opset=opset)


def positions() -> onnx.ModelProto:
    """Position ids from Shape and Range, a causal mask from Trilu, and what broadcasts over them."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["t"]),
        node("Range", ["zero", "t", "one"], ["ids"]),
        node("Gather", ["table", "ids"], ["e"]),
        node("Add", ["x", "e"], ["a"]),
        node("Transpose", ["a"], ["at"], perm=[0, 2, 1]),
        node("MatMul", ["a", "at"], ["m"]),
        node("Trilu", ["m"], ["low"], upper=0),
        node("ReduceSum", ["low", "last"], ["r"], keepdims=1),
        node("CumSum", ["x", "one"], ["c"]),
        node("Cast", ["t"], ["tf"], to=TensorProto.FLOAT),
        node("Div", ["c", "tf"], ["mean"]),
        node("Mul", ["mean", "r"], ["y"]),
    ]
    constants = {"zero": I64(0), "one": I64(1), "last": I64([-1]), "table": normal((96, 8), 3)}
    return model_of(nodes, {"x": ("batch", "time", 8)}, ["y"], constants)


def anchors() -> onnx.ModelProto:
    """Points of a grid by float ranges over sizes, as detectors make them: half a step in, and centred."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "two"], ["h"]),
        node("Gather", ["s", "three"], ["w"]),
        node("Cast", ["h"], ["hf"], to=TensorProto.FLOAT),
        node("Cast", ["w"], ["wf"], to=TensorProto.FLOAT),
        node("Range", ["zero", "hf", "step"], ["rows"]),
        node("Mul", ["wf", "twice"], ["w2"]),
        node("Sub", ["zero", "wf"], ["left"]),
        node("Add", ["left", "w2"], ["right"]),
        node("Range", ["left", "right", "twice"], ["columns"]),
        node("Add", ["rows", "half"], ["i"]),
        node("Unsqueeze", ["i", "last"], ["ic"]),
        node("Slice", ["s", "last2", "end"], ["hw"]),
        node("Expand", ["ic", "hw"], ["grid"]),
        node("Add", ["grid", "columns"], ["place"]),
        node("Mul", ["hf", "half"], ["middle"]),
        node("Sub", ["place", "middle"], ["centred"]),
        node("Cast", ["w2"], ["wi"], to=TensorProto.INT64),
        node("Div", ["wi", "two"], ["again"]),
        node("Cast", ["again"], ["af"], to=TensorProto.FLOAT),
        node("Div", ["centred", "af"], ["scaled"]),
        node("Mul", ["x", "scaled"], ["y"]),
    ]
    constants = {
        **{"two": I64(2), "three": I64(3), "last": I64([-1]), "last2": I64([2]), "end": I64([4])},
        **{n: np.array(v, np.float32) for n, v in (("zero", 0), ("step", 1), ("twice", 2), ("half", 0.5))},
    }
    return image(nodes, constants)


def sorting() -> onnx.ModelProto:
    """All of an axis in order, as exporters write argsort, and its first half."""
    nodes = [
        node("Shape", ["x"], ["s"], start=1, end=2),
        node("TopK", ["x", "s"], ["values", "order"], axis=1, largest=0),
        node("Cast", ["order"], ["places"], to=TensorProto.FLOAT),
        node("Div", ["s", "two"], ["half"]),
        node("TopK", ["x", "half"], ["most", "where"], axis=1),
        node("Concat", ["values", "places", "most"], ["y"], axis=1),
    ]
    return model_of(nodes, {"x": ("n", "t", 3)}, ["y"], {"two": I64([2])})


def slices() -> onnx.ModelProto:
    """From the front, from the end, backwards, and past both ends, by various steps; padded to the length again."""
    cuts = [(-1, -(2**63), -1), (-2, -(10**9), -2), (2**31 - 1, 1, -3), (1, 10**9, 2), (-5, 2**63 - 1, 1), (-9, -1, 3),
            (5, 2, -1), (-1, -4, -1), (0, -3, 1)]  # fmt: skip
    nodes, constants = [], {"axis": I64([1])}
    for i, cut in enumerate(cuts):
        constants |= {f"{name}{i}": I64([v]) for name, v in zip(("start", "end", "step"), cut, strict=True)}
        nodes.append(node("Slice", ["x", f"start{i}", f"end{i}", "axis", f"step{i}"], [f"part{i}"]))
        nodes.append(node("ReduceSum", [f"part{i}", "axis"], [f"sum{i}"], keepdims=1))
    nodes += [
        node("Concat", [f"sum{i}" for i in range(len(cuts))], ["sums"], axis=1),
        node("Concat", ["part0", "part1", "part2", "part3", "sums"], ["y"], axis=1),
    ]
    return model_of(nodes, {"x": ("n", "t", 3)}, ["y"], constants)


def windows() -> onnx.ModelProto:
    """Padded to a multiple of four and cut into windows of 4x4, and back."""
    nodes = [node("Shape", ["x"], ["s"]), node("Split", ["s"], ["b", "c", "h", "w"], num_outputs=4)]
    for n in "hw":
        nodes += [
            node("Add", [n, "three"], [f"{n}1"]),
            node("Div", [f"{n}1", "four"], [f"{n}2"]),
            node("Mul", [f"{n}2", "four"], [f"{n}3"]),
            node("Sub", [f"{n}3", n], [f"{n}4"]),
        ]
    nodes += [
        node("Concat", ["z", "z", "z", "z", "z", "z", "h4", "w4"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["p"]),
        node("Concat", ["b", "c", "h2", "four", "w2", "four"], ["cut"], axis=0),
        node("Reshape", ["p", "cut"], ["p1"]),
        node("Transpose", ["p1"], ["p2"], perm=[0, 2, 4, 1, 3, 5]),
        node("Softmax", ["p2"], ["p3"], axis=-1),
        node("Transpose", ["p3"], ["p4"], perm=[0, 3, 1, 4, 2, 5]),
        node("Concat", ["b", "c", "h3", "w3"], ["whole"], axis=0),
        node("Reshape", ["p4", "whole"], ["p5"]),
        node("Slice", ["p5", "z2", "hw", "axes"], ["y"]),
    ]
    nodes.insert(1, node("Slice", ["s", "two", "end"], ["hw"]))
    constants = {"three": I64([3]), "four": I64([4]), "z": I64([0]), "z2": I64([0, 0]), "axes": I64([2, 3])}
    return image(nodes, constants | {"two": I64([2]), "end": I64([4])})


def movement() -> onnx.ModelProto:
    """Concat of dynamic parts, slices from the end, tiles, splits and a reduction."""
    nodes = [
        node("Slice", ["x", "minus2", "far", "axis2"], ["tail"]),
        node("Slice", ["x", "one", "minus1", "axis2"], ["middle"]),
        node("Concat", ["tail", "middle", "x"], ["c"], axis=2),
        node("Tile", ["c", "reps"], ["t"]),
        node("Gather", ["t", "minus1"], ["g"], axis=2),
        node("ReduceMean", ["t", "axis2"], ["r"]),
        node("Add", ["g", "r"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[1, 0, 2]),
        node("Flatten", ["b"], ["y"], axis=1),
    ]
    constants = {k: I64([v]) for k, v in {"minus2": -2, "far": 2**62, "one": 1, "minus1": -1, "axis2": 2}.items()}
    return model_of(nodes, {"x": ("n", 3, "t")}, ["y"], constants | {"reps": I64([1, 1, 2])})


def shapes_as_values() -> onnx.ModelProto:
    nodes = [
        node("Shape", ["x"], ["y"]),
        node("ConstantOfShape", ["y"], ["k"], value=helper.make_tensor("v", TensorProto.INT64, [1], [3])),
        node("ReduceProd", ["y"], ["count"], keepdims=0),
        node("Mul", ["k", "count"], ["z"]),
    ]
    model = model_of(nodes, {"x": ("a", "b")}, ["y", "z"], output_dtype=TensorProto.INT64)
    return model


def matmul() -> onnx.ModelProto:
    return model_of([node("MatMul", ["x", "z"], ["y"])], {"x": ("b", 4, "m", "k"), "z": ("b", 4, "k", "n")}, ["y"])


def half(op: str, shape: Any, **attributes: Any) -> onnx.ModelProto:
    return model_of([node(op, ["x"], ["y"], **attributes)], {"x": shape}, ["y"])


def half_outputs(op: str, shape: Any, **attributes: Any) -> onnx.ModelProto:
    model = model_of([node(op, ["x"], ["y", "i"], **attributes)], {"x": shape}, ["y"])
    model.graph.output.append(helper.make_tensor_value_info("i", TensorProto.INT64, None))
    return model


def expand_by_shape() -> onnx.ModelProto:
    """Learned queries expanded to the batch, as in detectors, and a tensor of ones of the input's size."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["b"]),
        node("Concat", ["b", "minus", "minus"], ["to"], axis=0),
        node("Equal", ["to", "minus"], ["open"]),
        node("Where", ["open", "one", "to"], ["target"]),
        node("Expand", ["queries", "target"], ["q"]),
        node("ConstantOfShape", ["s"], ["ones"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])),
        node("Mul", ["x", "ones"], ["m"]),
        node("MatMul", ["q", "m"], ["y"]),
    ]
    constants = {"first": I64([0]), "minus": I64([-1]), "one": I64([1]), "queries": normal((1, 5, 8), 3)}
    return model_of(nodes, {"x": ("n", 8, "t")}, ["y"], constants)


def scaled_shape() -> onnx.ModelProto:
    """A size by float arithmetic, as exporters write interpolation: only the traced size is admitted."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "two", "four"], ["hw"]),
        node("Cast", ["hw"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "scale"], ["g"]),
        node("Floor", ["g"], ["k"]),
        node("Cast", ["k"], ["to"], to=TensorProto.INT64),
        node("Slice", ["s", "zero", "two"], ["front"]),
        node("Concat", ["front", "to"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
    ]  # fmt: skip
    constants = {"zero": I64([0]), "two": I64([2]), "four": I64([4]), "scale": np.float32([1.7, 0.6])}
    return image(nodes, constants)


# name: (model, sizes for which the choices are made, sizes that the plan must admit)
Sizes = list[dict[str, int]]
CASES: dict[str, tuple[onnx.ModelProto, dict[str, int], Sizes]] = {}


def case(name: str, model: onnx.ModelProto, hints: dict[str, int], *others: tuple[int, ...]) -> None:
    CASES[name] = (model, hints, [dict(zip(hints, o, strict=True)) for o in others])


HW, IMAGES = {"n": 1, "h": 40, "w": 56}, [(1, 40, 56), (2, 33, 35), (1, 64, 17), (3, 95, 41)]
case("conv chain", conv_chain(), HW, *IMAGES)
case("attention", attention(), {"batch": 1, "time": 24}, (1, 24), (3, 7), (1, 1), (2, 130))
case(
    "resize cubic of any batch",
    resize("cubic", "half_pixel", scales=[1.0, 1.0, 1.7, 1.7]),
    HW,
    (1, 40, 56),
    (3, 40, 56),
)
TO = {"n": 1, "h": 9, "w": 12, "p": 17, "q": 20}
RESIZES = [(1, 9, 12, 17, 20), (2, 5, 31, 11, 13), (1, 16, 8, 4, 24), (1, 7, 7, 7, 9), (1, 64, 64, 6, 8)]
for _transform in ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"):
    case(f"resize linear {_transform}", resize("linear", _transform), TO, *RESIZES)
    for _round in ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil"):
        if (_transform, _round) != ("align_corners", "ceil"):
            case(
                f"resize nearest {_transform} {_round}",
                resize("nearest", _transform, nearest_mode=_round),
                TO,
                *RESIZES,
            )
for _scale in (2.0, 0.5, 1.5):
    by = [1.0, 1.0, _scale, _scale]
    case(f"resize nearest by {_scale}", resize("nearest", "asymmetric", scales=by, nearest_mode="floor"), HW, *IMAGES)
    case(f"resize linear by {_scale}", resize("linear", "half_pixel", scales=by), HW, *IMAGES)
case(
    "conv transpose",
    one_node("ConvTranspose", ("n", 6, "t"), normal((6, 4, 7), 1), normal([4], 2), strides=[3], pads=[2, 1]),
    {"n": 1, "t": 20},
    (1, 20),
    (3, 1),
    (2, 61),
)
case(
    "conv transpose 2-D",
    one_node("ConvTranspose", ("n", 6, "h", "w"), normal((6, 2, 4, 4), 1), strides=[2, 2], pads=[1, 1, 1, 1], group=2),
    HW,
    *IMAGES,
)
case(
    "inverse STFT",
    one_node("ConvTranspose", (1, 130, "t"), inverse_dft_basis(128), strides=[32]),
    {"t": 50},
    (50,),
    (7,),
    (201,),
)
case(
    "STFT",
    one_node("Conv", (1, 1, "t"), normal((40, 1, 24), 3), strides=[10], pads=[12, 12]),
    {"t": 500},
    (500,),
    (77,),
    (1003,),
)
case("conv same", one_node("Conv", ("n", 4, "h", "w"), normal((5, 4, 3, 3), 1), auto_pad="SAME_UPPER"), HW, *IMAGES)
case(
    "conv same strided",
    one_node("Conv", ("n", 4, "h", "w"), normal((5, 4, 3, 3), 1), auto_pad="SAME_UPPER", strides=[2, 2]),
    HW,
    (1, 40, 56),
    (2, 64, 32),
)
case(
    "conv depthwise",
    one_node("Conv", ("n", 6, "h", "w"), normal((6, 1, 3, 3), 1), group=6, pads=[1, 1, 1, 1], dilations=[2, 1]),
    HW,
    *IMAGES,
)
case(
    "average pool",
    half("AveragePool", ("n", 3, "h", "w"), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    HW,
    *IMAGES,
)
case(
    "average pool ceil",
    half("AveragePool", ("n", 3, "h", "w"), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    HW,
    (1, 40, 56),
)
case(
    "instance normalization",
    image([node("InstanceNormalization", ["x", "s", "b"], ["y"])], {"s": normal((3,)), "b": normal((3,), 1)}),
    HW,
    *IMAGES,
)
case(
    "softmax over a dynamic axis", half("Softmax", ("n", "t", 5), axis=1), {"n": 2, "t": 30}, (2, 30), (1, 1), (3, 700)
)
case("reduce over dynamic axes", half("ReduceMax", ("n", "h", "w"), keepdims=0), HW, *IMAGES)
case("positions", positions(), {"batch": 1, "time": 24}, (1, 24), (3, 7), (2, 96))
case("windows", windows(), HW, *IMAGES)
case("anchors", anchors(), HW, *IMAGES)
case("sorting", sorting(), {"n": 1, "t": 20}, (1, 20), (2, 11), (3, 130))
case("slices", slices(), {"n": 1, "t": 20}, (1, 20), (2, 11), (3, 130))
case("movement", movement(), {"n": 1, "t": 20}, (1, 20), (2, 3), (3, 77))
case("shapes as values", shapes_as_values(), {"a": 4, "b": 6}, (4, 6), (1, 1), (9, 200))
case("matmul", matmul(), {"b": 1, "m": 8, "k": 20, "n": 24}, (1, 8, 20, 24), (2, 1, 7, 33), (3, 40, 1, 5))
case("depth to space", half("DepthToSpace", ("n", 12, "h", "w"), blocksize=2), HW, *IMAGES)
case(
    "space to depth",
    half("SpaceToDepth", ("n", 2, "h", "w"), blocksize=2),
    {"n": 1, "h": 8, "w": 10},
    (1, 8, 10),
    (2, 4, 6),
)
case(
    "einsum",
    model_of(
        [node("Einsum", ["x", "z"], ["y"], equation="bij,bjk->bki")],
        {"x": ("b", "i", "j"), "z": ("b", "j", "k")},
        ["y"],
    ),
    {"b": 2, "i": 5, "j": 6, "k": 7},
    (2, 5, 6, 7),
    (1, 9, 2, 30),
)
case("lrn", half("LRN", ("n", 7, "h", "w"), size=3), HW, *IMAGES)
case(
    "reflect pad",
    image([node("Pad", ["x", "p"], ["y"], mode="reflect")], {"p": I64([0, 0, 2, 1, 0, 0, 1, 3])}),
    HW,
    *IMAGES,
)
case(
    "wide convolution",
    one_node("Conv", ("n", 48, "h", "w"), normal((64, 48, 3, 3), 1) / 20, pads=[1, 1, 1, 1]),
    HW,
    *IMAGES,
)
case(
    "wide product",
    model_of([node("MatMul", ["x", "w"], ["y"])], {"x": ("b", "t", 64)}, ["y"], {"w": normal((64, 80), 1) / 8}),
    {"b": 2, "t": 64},
    (2, 64),
    (1, 1),
    (3, 77),
)
case(
    "STFT operator",
    model_of(
        [node("STFT", ["x", "step", "w"], ["y"])], {"x": ("n", "t", 1)}, ["y"], {"step": I64(40), "w": normal((128,))}
    ),
    {"n": 1, "t": 1000},
    (1, 1000),
    (2, 777),
    (3, 130),
)
case(
    "DFT of fixed length",
    model_of([node("DFT", ["x", "", "axis"], ["y"])], {"x": ("n", 48, 1)}, ["y"], {"axis": I64(1)}),
    {"n": 3},
    (3,),
    (1,),
    (40,),
)
case(
    "DFT of dynamic length",
    model_of([node("DFT", ["x", "", "axis"], ["y"])], {"x": (2, "t", 1)}, ["y"], {"axis": I64(1)}),
    {"t": 48},
    (48,),
)
case(
    "max pool with indices",
    half_outputs("MaxPool", ("n", 3, "h", "w"), kernel_shape=[2, 2], strides=[2, 2]),
    HW,
    *IMAGES,
)
case("expand by shape", expand_by_shape(), {"n": 1, "t": 20}, (1, 20), (3, 1), (2, 77))
case("floor of a scaled shape", scaled_shape(), HW, (1, 40, 56))
