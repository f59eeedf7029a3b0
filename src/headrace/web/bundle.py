"""Writing the bundle: plans for the asked sizes or for all, weights once, the player beside them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..errors import HeadraceError, InputError, ModelError, UnsupportedOpError
from ..feeds import node_arg
from ..model import Model, load
from ..model.load import ModelSource
from ..ops import Refuse
from ..plan import Graph, Kernel, Plan, Spec, host_inputs, prepare_graph, verify_plan
from ..plan.general import Form, General, forms_of
from ..plan.plan import INLINE_BYTES
from ..plan.whole import whole_plan
from ..target import DEFAULT, Target
from .arguments import Shapes, bound, checked_folder, checked_shapes
from .general import general_plans
from .sizes import SizeTable

FORMAT = 2
SHARD_BYTES = 64 << 20
SHORTEST_TAIL = 200  # characters
PLAYER_FILES = ("headrace.js", "tensor.js", "bundle.js", "sizes.js", "headrace.d.ts")
WEIGHTS_FILE = re.compile(r"weights-\d+\.bin")
DEMO_FILES = ("index.html", "demo.js", "demo-kinds.js", "demo-inputs.js", "demo-outputs.js", "demo-peers.js")


def export_web(
    model: ModelSource,
    folder: str | Path,
    input_shapes: Shapes | Sequence[Shapes] | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    f16: bool = False,
    target: Target = DEFAULT,
) -> dict[str, Any]:
    """Write `model` as a folder that a page plays on WebGPU with no other runtime.

    Args:
        model: path of a `.onnx` file, its bytes, or an onnx.ModelProto.
        folder: where to write `plan.json`, `weights*.bin`, the player and a demo page.
        input_shapes: the shape of each input, as {"x": (1, 3, 224, 224)}; a list of such dicts for several sizes, which
            share weights and pipelines. Inputs with fixed shapes can be left out. Without it, dynamic dimensions stay
            so: the bundle runs at every size that its conditions allow.
        dims: sizes of symbolic dimensions, which are fixed then.
        f16: store float32 weights in 16 bits, two to a word: half the download and half the memory, and each weight
            rounded to 11 bits. No feature of the device is needed; it computes in float32.
        target: the limits to plan for; default those that every WebGPU device has.

    Returns:
        The content of `plan.json`.

    Raises:
        ModelError, InputError: a bad model, argument or size, a folder with other files than a bundle's, or an input
            whose values decide shapes (one that only chooses between branches of one shape is fine: both are computed).
        UnsupportedOpError: nodes that would have to run outside the device.
        DeviceError: something that does not fit the limits of `target`.
    """
    if not isinstance(f16, bool):
        raise InputError(f"f16 is True or False, not {f16!r}.")
    if not isinstance(target, Target):
        raise InputError(f"target is a Target of headrace.target, not {target!r}.")
    where, many = checked_folder(folder), checked_shapes(input_shapes)
    loaded = bound(load(model), dims)
    graph, stored = prepare_graph(loaded), {}  # type: Graph, dict[str, Array]
    target = replace(target, packed=True, half_weights=f16)
    kinds = (target, replace(target, software=not target.software))
    if many is None and any(v.shape is None or not v.shape.is_static() for v in loaded.graph.inputs):
        bundle, weights = _for_all_sizes(graph, loaded, kinds, stored)
    else:
        plans = [_plan(graph, loaded, shapes, kind, stored) for shapes in many or [{}] for kind in kinds]
        bundle, weights = bundled(loaded, plans)
        bundle["example"] = {str(v.name): list(_shape(v, (many or [{}])[0])) for v in loaded.graph.inputs}
    _write(where, bundle, weights)
    return bundle


def _for_all_sizes(
    graph: Graph, model: Model, kinds: Sequence[Target], stored: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    forms = forms_of(model)

    def concrete(specs: Mapping[str, Spec | Array], target: Target) -> Plan:
        return lower_fully(graph, specs, target, stored)

    with _values_unknown(graph, model):
        made = [general_plans(graph, forms, kind, stored, concrete) for kind in kinds]
    return bundled_for_all(model, forms, made)


@contextlib.contextmanager
def _values_unknown(graph: Graph, model: Model) -> Iterator[None]:
    """Lower without the values of inputs, which a page knows only when it runs: enough for a condition between branches
    of one shape. Raises InputError where an input decides more than that."""
    try:
        yield
    except (HeadraceError, Refuse) as error:
        needed = host_inputs(graph)
        for name in (str(v.name) for v in model.graph.inputs):
            if name in needed:
                raise InputError(
                    f"The values of input {name!r} decide shapes, so it has no plan beforehand: make it constant."
                ) from error
        raise


def _plan(graph: Graph, model: Model, shapes: Shapes, target: Target, stored: dict[str, Array]) -> Plan:
    specs: dict[str, Spec | Array] = {}
    for value in model.graph.inputs:
        specs[str(value.name)] = Spec(_shape(value, shapes), value.dtype or ir.DataType.FLOAT)
    unknown = set(shapes) - set(specs)
    if unknown:
        raise InputError(f"No such input: {', '.join(sorted(unknown))}. The model has: {', '.join(specs)}.")
    with _values_unknown(graph, model):
        plan = lower_fully(graph, specs, target, stored)
    verify_plan(plan, target)
    return plan


def lower_fully(graph: Graph, specs: Mapping[str, Spec | Array], target: Target, stored: dict[str, Array]) -> Plan:
    """The plan for inputs of the given shapes (or values).

    Raises:
        UnsupportedOpError: nodes that would have to run on the host.
        InputError: an input that no device can hold.
    """
    try:
        whole = whole_plan(graph, specs, target, stored)
    except Refuse as reason:  # of an input
        raise InputError(f"The model cannot run on a device: {reason}.") from reason
    if whole.refused:
        raise UnsupportedOpError((*whole.refused, *whole.hopeless), "A page has no other runtime that could run them.")
    return whole.plan


def _shape(value: ir.Value, shapes: Shapes) -> tuple[int, ...]:
    arg = node_arg(value)
    given = shapes.get(arg.name)
    if value.shape is None and given is not None:
        return tuple(given)
    if given is None:
        if value.shape is None or any(not isinstance(d, int) for d in arg.shape):
            raise InputError(f"Input {arg.name!r} {arg.shape} has sizes that are not known: give input_shapes.")
        return tuple(int(d) for d in arg.shape if isinstance(d, int))
    fits = len(given) == len(arg.shape) and all(
        not isinstance(want, int) or want == got for want, got in zip(arg.shape, given, strict=True)
    )
    if not fits:
        raise InputError(f"Input {arg.name!r} is {arg.shape} and cannot have the shape {list(given)}.")
    return tuple(given)


def bundled(model: Model, plans: Sequence[Plan]) -> tuple[dict[str, Any], dict[str, Array]]:
    """`plan.json` as plain data, and the constants that go to the file of weights, by key.

    `plans` come in pairs for one size, for GPUs and for software adapters; equal ones are written once. A plan leaves
    out what it has in common with the one before it, and its dispatches stand in columns so that they can be.
    """
    kernels: dict[Kernel, int] = {}
    made: list[dict[str, Any]] = []
    for i, plan in enumerate(plans):
        data = _plain(plan, kernels) | {"software": i % 2 == 1}
        if made and {**made[-1], "software": None} == {**data, "software": None}:
            made[-1]["software"] = None  # the same for both
        else:
            made.append(data)
    weights = _weights(plans)
    return _about(model, list(kernels), weights, made), weights


def bundled_for_all(
    model: Model, forms: Mapping[str, Form], made: Sequence[Sequence[General]]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The same for plans whose sizes are expressions: `made` for the GPU, then for software adapters."""
    places: dict[str, list[tuple[str, int]]] = {}
    for name, (shape, _) in forms.items():
        for axis, d in enumerate(shape):
            if isinstance(d, str):
                places.setdefault(d, []).append((name, axis))
    table, kernels = SizeTable(len(places)), {}  # type: SizeTable, dict[Kernel, int]
    plans: list[dict[str, Any]] = []
    for software, generals in enumerate(made):
        for g in generals:
            data = _plain(g.plan, kernels, table.reference)
            del data["bytes"]  # the player adds up what is bound
            fields, guards = table.fields(g.plan), table.guards(g.guards)
            plans.append(data | {"software": software == 1, "fields": fields, "guards": guards})
    hints = made[0][0].hints
    weights = _weights([g.plan for generals in made for g in generals])
    about = _about(model, list(kernels), weights, plans)
    example = {name: [hints[d] if isinstance(d, str) else d for d in shape] for name, (shape, _) in forms.items()}
    dims = [{"name": d, "at": at} for d, at in places.items()]
    return {**about, "example": example, "dims": dims, "sizes": table.entries}, weights


def _weights(plans: Sequence[Plan]) -> dict[str, Array]:
    constants = (c for plan in plans for c in plan.constants if c.data.nbytes > INLINE_BYTES)
    return {c.key: c.data for c in constants}


def _about(
    model: Model, kernels: Sequence[Kernel], weights: Mapping[str, Array], plans: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What all bundles have. Kernels that look alike stand together, so that they compress well."""
    order = sorted(range(len(kernels)), key=lambda i: (kernels[i].name, kernels[i].wgsl))
    place = {number: i for i, number in enumerate(order)}
    for plan in plans:
        plan["kernel"] = [place[number] for number in plan["kernel"]]
    return {
        "format": FORMAT,
        "inputs": [_described(v) for v in model.graph.inputs],
        "outputs": [_described(v) for v in model.graph.outputs],
        **_texts([kernels[i] for i in order]),
        "plans": [_changes(data, plans[i - 1] if i else {}) for i, data in enumerate(plans)],
        "weights": {
            "places": {key: [at, weights[key].nbytes] for at, key in _offsets(weights)},
            "bytes": sum(_padded(w.nbytes) for w in weights.values()),
            "shard": SHARD_BYTES,
            "hash": _content_hash(weights),
        },
    }


COLUMNS = ("kernel", "groups", "bindings", "nodes", "flops", "bytes")


def _plain(plan: Plan, kernels: dict[Kernel, int], reference: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """A plan as JSON has it, but with the bundle's numbers of its kernels and its dispatches in columns."""
    data: dict[str, Any] = json.loads(plan.to_json(reference))
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


def _content_hash(weights: Mapping[str, Array]) -> str:
    """Names the content of the files of weights: a page asks for them by it, so no cache mixes two exports."""
    content = hashlib.sha256()
    for array in weights.values():
        content.update(_bytes(array))
    return content.hexdigest()[:32]


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes() + bytes(_padded(array.nbytes) - array.nbytes)


def _write(folder: Path, bundle: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if WEIGHTS_FILE.fullmatch(old.name):
                old.unlink()
        (folder / "plan.json").write_text(json.dumps(bundle, separators=(",", ":")))
        _write_weights(folder, weights)
        for name in (*PLAYER_FILES, *DEMO_FILES):
            with resources.as_file(resources.files(__package__) / name) as source:
                shutil.copyfile(source, folder / name)
    except OSError as error:
        raise ModelError(f"Cannot write the bundle to {folder}: {error}") from error


def _write_weights(folder: Path, weights: Mapping[str, Array]) -> None:
    """All constants one after the other, cut into files of one size that a browser can cache."""
    whole = b"".join(map(_bytes, weights.values()))
    for i, start in enumerate(range(0, max(len(whole), 1), SHARD_BYTES)):
        (folder / f"weights-{i}.bin").write_bytes(whole[start : start + SHARD_BYTES])
