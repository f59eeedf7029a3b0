"""Writing the bundle: plans for the asked sizes, weights once, the player beside them."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..errors import InputError, ModelError, UnsupportedOpError
from ..feeds import NodeArg, node_arg
from ..model import Model, load
from ..model.load import ModelSource
from ..model.shapes import bind_dims
from ..plan import Graph, Kernel, Plan, Spec, host_inputs, prepare_graph, verify_plan
from ..plan.plan import INLINE_BYTES
from ..plan.whole import whole_plan
from ..target import DEFAULT, Target

FORMAT = 1
SHARD_BYTES = 64 << 20
SHORTEST_TAIL = 200  # characters
PLAYER_FILES = ("headrace.js", "headrace.d.ts", "index.html", "demo.js")

Shapes = Mapping[str, Sequence[int]]


def export_web(
    model: ModelSource,
    folder: str | Path,
    input_shapes: Shapes | Sequence[Shapes] | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    target: Target = DEFAULT,
) -> dict[str, Any]:
    """Write `model` as a folder that a page plays on WebGPU with no other runtime.

    Args:
        model: path of a `.onnx` file, its bytes, or an onnx.ModelProto.
        folder: where to write `plan.json`, `weights*.bin`, the player and a demo page.
        input_shapes: the shape of each input, as {"x": (1, 3, 224, 224)}; a list of such dicts for several sizes, which
            share weights and pipelines. Inputs with fixed shapes can be left out.
        dims: sizes of symbolic dimensions.
        target: the limits to plan for; default those that every WebGPU device has.

    Returns:
        The content of `plan.json`.

    Raises:
        ModelError, InputError: a bad model; a size that is not known, or an input whose values decide shapes.
        UnsupportedOpError: nodes that would have to run outside the device.
        DeviceError: something that does not fit the limits of `target`.
    """
    loaded = load(model)
    if dims:
        loaded = bind_dims(loaded, dims)
    graph, stored = prepare_graph(loaded), {}  # type: Graph, dict[str, Array]
    many = [input_shapes] if isinstance(input_shapes, Mapping) or input_shapes is None else list(input_shapes)
    kinds = (target, replace(target, software=not target.software))
    plans = [_plan(graph, loaded, shapes or {}, kind, stored) for shapes in many for kind in kinds]
    bundle, weights = bundled(loaded, plans)
    _write(Path(folder), bundle, weights)
    return bundle


def _plan(graph: Graph, model: Model, shapes: Shapes, target: Target, stored: dict[str, Array]) -> Plan:
    needed = host_inputs(graph)
    specs: dict[str, Spec | Array] = {}
    for value in model.graph.inputs:
        arg = node_arg(value)
        if arg.name in needed:
            raise InputError(
                f"The values of input {arg.name!r} decide shapes, so it has no plan beforehand: make it constant."
            )
        specs[arg.name] = Spec(_shape(arg, shapes), value.dtype or ir.DataType.FLOAT)
    unknown = set(shapes) - set(specs)
    if unknown:
        raise InputError(f"No such input: {', '.join(sorted(unknown))}. The model has: {', '.join(specs)}.")
    plan = lower_fully(graph, specs, target, stored)
    verify_plan(plan, target)
    return plan


def lower_fully(graph: Graph, specs: Mapping[str, Spec | Array], target: Target, stored: dict[str, Array]) -> Plan:
    """The plan for inputs of the given shapes (or values).

    Raises:
        UnsupportedOpError: nodes that would have to run on the host.
    """
    whole = whole_plan(graph, specs, target, stored)
    if whole.refused:
        raise UnsupportedOpError(whole.refused, "A page has no other runtime that could run them.")
    return whole.plan


def _shape(arg: NodeArg, shapes: Shapes) -> tuple[int, ...]:
    given = shapes.get(arg.name)
    if given is None:
        if any(not isinstance(d, int) for d in arg.shape):
            raise InputError(f"Input {arg.name!r} {arg.shape} has sizes that are not known: give input_shapes.")
        return tuple(int(d) for d in arg.shape if isinstance(d, int))
    fits = len(given) == len(arg.shape) and all(
        not isinstance(want, int) or want == got for want, got in zip(arg.shape, given, strict=True)
    )
    if not fits or any(int(d) < 0 for d in given):
        raise InputError(f"Input {arg.name!r} is {arg.shape} and cannot have the shape {list(given)}.")
    return tuple(int(d) for d in given)


def bundled(model: Model, plans: Sequence[Plan]) -> tuple[dict[str, Any], dict[str, Array]]:
    """`plan.json` as plain data, and the constants that go to the file of weights, by key.

    `plans` come in pairs for one size, for GPUs and for software adapters; equal ones are written once. A plan leaves
    out what it has in common with the one before it, and its dispatches stand in columns so that they can be.
    """
    kernels: dict[Kernel, int] = {}
    weights: dict[str, Array] = {}
    made: list[dict[str, Any]] = []
    for i, plan in enumerate(plans):
        for constant in plan.constants:
            if constant.data.nbytes > INLINE_BYTES:
                weights.setdefault(constant.key, constant.data)
        data = _plain(plan, kernels) | {"software": i % 2 == 1}
        if made and {**made[-1], "software": None} == {**data, "software": None}:
            made[-1]["software"] = None  # the same for both
        else:
            made.append(data)
    bundle = {
        "format": FORMAT,
        "inputs": [_described(v) for v in model.graph.inputs],
        "outputs": [_described(v) for v in model.graph.outputs],
        **_texts(list(kernels)),
        "plans": [_changes(data, made[i - 1] if i else {}) for i, data in enumerate(made)],
        "weights": {
            "places": {key: [at, weights[key].nbytes] for at, key in _offsets(weights)},
            "bytes": sum(_padded(w.nbytes) for w in weights.values()),
            "shard": SHARD_BYTES,
        },
    }
    return bundle, weights


COLUMNS = ("kernel", "groups", "bindings", "nodes", "flops", "bytes")


def _plain(plan: Plan, kernels: dict[Kernel, int]) -> dict[str, Any]:
    """A plan as JSON has it, but with the bundle's numbers of its kernels and its dispatches in columns."""
    data: dict[str, Any] = json.loads(plan.to_json())
    number = [kernels.setdefault(k, len(kernels)) for k in plan.kernels]
    columns = zip(*data.pop("dispatches"), strict=True) if data["dispatches"] else [()] * len(COLUMNS)
    data |= dict(zip(COLUMNS, map(list, columns), strict=True))
    data["kernel"] = [number[k] for k in data["kernel"]]
    for left_out in ("kernels", "version", "host_steps", "next"):
        del data[left_out]
    return data


def _changes(data: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in before or before[name] != value}


def _texts(kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Kernels with the ends of their texts that others share written once: a body is long, its header short."""
    tails: dict[str, str] = {}
    for name in {k.name for k in kernels}:
        texts = [k.wgsl for k in kernels if k.name == name]
        common = _common_tail(texts)
        tails[name] = common if len(texts) > 1 and len(common) > SHORTEST_TAIL else ""
    numbers = {tail: i for i, tail in enumerate(sorted(set(tails.values())))}
    entries = [
        {
            "name": k.name,
            "head": k.wgsl[: len(k.wgsl) - len(tails[k.name])],
            "tail": numbers[tails[k.name]],
            "bindings": k.bindings,
            "requires": k.requires,
            "entry": k.entry,
        }
        for k in kernels
    ]
    return {"kernels": entries, "tails": sorted(numbers)}


def _common_tail(texts: Sequence[str]) -> str:
    """The longest ending that all texts have."""
    first, last = min(t[::-1] for t in texts), max(t[::-1] for t in texts)  # the most different, read backwards
    count = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    return texts[0][len(texts[0]) - count :]


def _described(value: ir.Value) -> dict[str, Any]:
    arg = node_arg(value)
    return {"name": arg.name, "dims": arg.shape, "type": arg.type.removeprefix("tensor(").removesuffix(")")}


def _padded(size: int) -> int:
    return -(-size // 4) * 4


def _offsets(weights: Mapping[str, Array]) -> list[tuple[int, str]]:
    at, found = 0, []
    for key, array in weights.items():
        found.append((at, key))
        at += _padded(array.nbytes)
    return found


def _write(folder: Path, bundle: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("weights*.bin"):
            old.unlink()
        (folder / "plan.json").write_text(json.dumps(bundle, separators=(",", ":")))
        _write_weights(folder, weights)
        for name in PLAYER_FILES:
            with resources.as_file(resources.files(__package__) / name) as source:
                shutil.copyfile(source, folder / name)
    except OSError as error:
        raise ModelError(f"Cannot write the bundle to {folder}: {error}") from error


def _write_weights(folder: Path, weights: Mapping[str, Array]) -> None:
    """All constants one after the other, cut into files of one size that a browser can cache."""
    whole = b"".join(np.ascontiguousarray(a).tobytes() + bytes(_padded(a.nbytes) - a.nbytes) for a in weights.values())
    for i, start in enumerate(range(0, max(len(whole), 1), SHARD_BYTES)):
        (folder / f"weights-{i}.bin").write_bytes(whole[start : start + SHARD_BYTES])
