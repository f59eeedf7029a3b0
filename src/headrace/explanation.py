"""`headrace explain`: what becomes of a model and what it costs, from the cost model, without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import backends
from .errors import InputError, UnsupportedNode
from .feeds import check_host_nodes
from .model import Model, Note, load
from .model.shapes import Dims, annotate_types, bind_dims, dims_of, infer_shapes, input_dims
from .plan import Plan
from .plan.whole import Whole, whole_plan
from .profile import Profile
from .profile.predict import Machine, machine, predict
from .profile.table import briefly, print_prediction
from .rules.flops import NodeCost, known, node_costs
from .target import DEFAULT, Target

ASSUMED_SIZE = 128  # of a dimension that is neither fixed nor bound, and not the first


@dataclass(frozen=True, slots=True)
class Work:
    """One dispatch: the kernel, whether it is the variant with tiles in workgroup memory, and what it does."""

    kernel: str
    shared: bool
    nodes: tuple[str, ...]
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """The plan for a WebGPU device in figures; `host` are the nodes that would leave it, with reasons."""

    adapter: str
    dispatches: tuple[Work, ...]
    kernels: int
    submits: int
    peak_bytes: int
    bytes_up: int
    bytes_down: int
    host: tuple[UnsupportedNode, ...]
    waiting: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found: notes on rewrites and refusals, and the costs of the nodes, the heaviest first."""

    model: str
    device: str
    nodes: int
    weight_bytes: int
    notes: tuple[Note, ...]
    costs: tuple[NodeCost, ...]
    unknown: int  # nodes whose shapes are not known before a run
    assumed: Mapping[str, tuple[int, ...]]  # shapes of inputs with sizes that were assumed
    on_device: DeviceWork | None = None
    prediction: Profile | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def explain_model(
    path: Path, dims: Mapping[str, int], device: str, target: str | None = None, host_nodes: Sequence[str] = ()
) -> Explanation:
    """Explain the model in `path` on `device`, or on a GPU that is not here: `target` is one of
    profile.predict.MACHINES, or a file that describes one.

    Raises:
        HeadraceError: as InferenceSession.
    """
    loaded = load(path)
    model = bind_dims(loaded, dims) if dims else loaded
    check_host_nodes(model, host_nodes)
    where = machine(target) if target is not None else None
    device = "webgpu" if where else backends.choose_device(device, None, None)
    assumed = {name: _assumed(d) for name, d in input_dims(model).items() if d is not None and None in d}
    shapes = infer_shapes(model, {**input_dims(model), **assumed})
    costs = tuple(node_costs(model, shapes))
    on_device = prediction = None
    if device == "webgpu":
        whole, limits = _whole(model, assumed, shapes, where, host_nodes)
        notes, on_device = (*model.notes, *whole.notes), _work(whole, limits)
        prediction = predict(model, path.name, whole.plan, where, notes) if where is not None else None
    else:
        notes = _on_cpu(model)
    weights = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    total = model.graph.num_nodes()
    unknown = total - len(costs)
    return Explanation(str(path), device, total, weights, notes, costs, unknown, assumed, on_device, prediction)


def _on_cpu(model: Model) -> tuple[Note, ...]:
    executable = backends.executable(model, "cpu", backends.Options())
    try:
        return tuple(executable.notes)
    finally:
        executable.close()


def _whole(
    model: Model,
    assumed: Mapping[str, tuple[int, ...]],
    shapes: Mapping[str, Dims],
    where: Machine | None,
    host_nodes: Sequence[str],
) -> tuple[Whole, Target]:
    """The plan for the adapter that is here; for a GPU with the default limits where there is none, or `where`."""
    from .plan import Spec, host_inputs, prepare_graph

    annotate_types(model)
    graph = prepare_graph(model)
    target = replace(DEFAULT, name=where.name) if where is not None else backends.webgpu_target()
    values: dict[str, Any] = {}
    for value in model.graph.inputs:
        name, dims = str(value.name), dims_of(value)
        shape = assumed.get(name) or known(dims)
        if shape is None:
            raise InputError(f"The rank of input {name!r} is not known: the plan cannot be made before a run.")
        dtype = value.dtype or ir.DataType.FLOAT
        values[name] = Spec(shape, dtype)
        if name in host_inputs(graph):
            values[name] = np.ones(shape, dtype.numpy())
    after_host = {
        str(v.name): Spec(shape, v.dtype)
        for node in model.graph
        for v in node.outputs
        if (shape := known(shapes.get(str(v.name)))) is not None and v.dtype is not None
    }
    try:
        return whole_plan(graph, values, target, host_nodes=host_nodes, after_host=after_host), target
    except InputError as error:
        if not assumed:
            raise
        taken = ", ".join(f"{name!r} as {list(shape)}" for name, shape in assumed.items())
        raise InputError(
            f"{error} Sizes that are not fixed were assumed ({taken}): bind them with --dim NAME=SIZE."
        ) from error


def _work(whole: Whole, target: Target) -> DeviceWork:
    plans: list[Plan] = []
    plan: Plan | None = whole.plan
    while plan is not None:
        plans.append(plan)
        plan = plan.next
    kernels = [(p.kernels[d.kernel], d) for p in plans for d in p.dispatches]
    return DeviceWork(
        target.name,
        tuple(Work(k.name, bool(k.workgroup_bytes), d.nodes, d.flops, d.bytes) for k, d in kernels),
        len({k.wgsl for k, _ in kernels}),
        len(plans),
        max(p.peak_bytes for p in plans),
        sum(u.size for p in plans for u in p.uploads),
        sum(r.size for p in plans for r in p.readbacks),
        whole.refused,
        whole.waiting,
    )


def _assumed(dims: Dims) -> tuple[int, ...]:
    return tuple(d if d is not None else (1 if i == 0 else ASSUMED_SIZE) for i, d in enumerate(dims))


def print_explanation(e: Explanation, console: Console, top: int) -> None:
    """The explanation as tables, on a console that takes text as it is (markup=False)."""
    flops = sum(c.flops for c in e.costs)
    size = f"{e.nodes} nodes, {e.weight_bytes / 1e6:.1f} MB of weights, {flops / 1e9:.3f} GFLOP"
    console.print(Text.assemble((e.model, "bold"), f": {size} on {e.device}"), highlight=False)
    for name, shape in e.assumed.items():
        console.print(f"  input {name!r} taken as {list(shape)}: bind its dimensions with --dim", highlight=False)
    for title, notes in (
        ("Rewritten", [n for n in e.notes if not n.refused]),
        ("Refused", [n for n in e.notes if n.refused]),
    ):
        if notes:
            console.print(f"\n{title}", style="bold")
        for note in notes:
            console.print(f"  {note.node or 'model'}: {note.text}", highlight=False)
    if e.on_device is not None:
        _print_device(e.on_device, console, 0 if e.prediction else top)
        if e.prediction is not None:
            print_prediction(e.prediction, console, top)
        return
    if not e.notes:
        console.print(
            "\nNothing was rewritten: no node of this model costs more than it must, as far as the rules know."
        )
    _print_costs(e, console, top, flops)


def _print_device(d: DeviceWork, console: Console, top: int) -> None:
    figures = (
        f"{len(d.dispatches)} dispatches of {d.kernels} kernels in {d.submits} submit{'s' if d.submits > 1 else ''}, "
        f"{d.peak_bytes / 1e6:.1f} MB at the peak; {d.bytes_up / 1e6:.3g} MB up, {d.bytes_down / 1e6:.3g} MB down"
    )
    console.print(Text.assemble((f"\nOn {d.adapter}", "bold"), f": {figures}"), highlight=False)
    if d.host:
        waiting = f" ({len(d.host)} node(s); {d.waiting} more wait for them)"
        console.print(Text.assemble(("\nLeaves the device", "bold"), waiting))
    for node in d.host:
        console.print(f"  {node}", highlight=False)
    if not top:
        return
    table = Table("kernel", title="Heaviest dispatches")
    table.add_column("does the work of", overflow="fold")
    for head in ("GFLOP", "MB"):
        table.add_column(head, justify="right", no_wrap=True)
    for w in sorted(d.dispatches, key=lambda w: (-w.flops, -w.bytes))[:top]:
        name = f"{w.kernel} (shared tiles)" if w.shared else w.kernel
        table.add_row(name, briefly(w.nodes), f"{w.flops / 1e9:.4g}", f"{w.bytes / 1e6:.4g}")
    console.print(table)


def _print_costs(e: Explanation, console: Console, top: int, flops: float) -> None:
    heavy = [c for c in e.costs if c.flops][:top]
    if not heavy:
        return
    table = Table(title="Heaviest nodes")
    for head in ("node", "op", "inputs", "output"):
        table.add_column(head, overflow="fold")
    for head in ("GFLOP", "share", "MB"):
        table.add_column(head, justify="right", no_wrap=True)
    for c in heavy:
        inputs = " ".join("×".join(map(str, s)) or "scalar" for s in c.inputs[:2])
        share = f"{100 * c.flops / flops:.1f} %"
        table.add_row(
            briefly([c.name]),
            c.op_type,
            inputs,
            "×".join(map(str, c.output)),
            f"{c.flops / 1e9:.4g}",
            share,
            f"{c.bytes / 1e6:.4g}",
        )
    console.print()
    console.print(table)
    if e.unknown:
        console.print(f"{e.unknown} node(s) have shapes that are not known before a run.")
