"""`headrace explain`: what becomes of a model and what it costs, from the cost model, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import backends
from .model import Note, load
from .model.shapes import Dims, bind_dims, infer_shapes, input_dims
from .profile.flops import NodeCost, node_costs

ASSUMED_SIZE = 128  # of a dimension that is neither fixed nor bound, and not the first


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

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def explain_model(path: Path, dims: Mapping[str, int], device: str) -> Explanation:
    """Explain the model in `path` on `device`.

    Raises:
        HeadraceError: as InferenceSession.
    """
    loaded = load(path)
    model = bind_dims(loaded, dims) if dims else loaded
    device = backends.choose_device(device, None, None)
    executable = backends.executable(model, device, backends.Options())
    try:
        notes = tuple(executable.notes)
    finally:
        executable.close()
    assumed = {name: _assumed(d) for name, d in input_dims(model).items() if d is not None and None in d}
    shapes = infer_shapes(model, {**input_dims(model), **assumed})
    costs = tuple(node_costs(model, shapes))
    weights = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    total = model.graph.num_nodes()
    return Explanation(str(path), device, total, weights, notes, costs, total - len(costs), assumed)


def _assumed(dims: Dims) -> tuple[int, ...]:
    return tuple(d if d is not None else (1 if i == 0 else ASSUMED_SIZE) for i, d in enumerate(dims))


def print_explanation(e: Explanation, console: Console, top: int) -> None:
    """The explanation as tables."""
    flops = sum(c.flops for c in e.costs)
    console.print(f"[bold]{e.model}[/bold]: {e.nodes} nodes, {e.weight_bytes / 1e6:.1f} MB of weights, "
                  f"{flops / 1e9:.3f} GFLOP on {e.device}", highlight=False)  # fmt: skip
    for name, shape in e.assumed.items():
        console.print(f"  input {name!r} taken as {list(shape)}: bind its dimensions with --dim", highlight=False)
    for title, notes in (
        ("Rewritten", [n for n in e.notes if not n.refused]),
        ("Refused", [n for n in e.notes if n.refused]),
    ):
        if notes:
            console.print(f"\n[bold]{title}[/bold]")
        for note in notes:
            console.print(f"  {note.node or 'model'}: {note.text}", highlight=False, markup=False)
    if not e.notes:
        console.print(
            "\nNothing was rewritten: no node of this model costs more than it must, as far as the rules know."
        )
    _print_costs(e, console, top, flops)


def _print_costs(e: Explanation, console: Console, top: int, flops: float) -> None:
    heavy = [c for c in e.costs if c.flops][:top]
    if not heavy:
        return
    table = Table("node", "op", "inputs", "output", "GFLOP", "share", "MB", title="Heaviest nodes")
    for c in heavy:
        inputs = " ".join("×".join(map(str, s)) or "scalar" for s in c.inputs[:2])
        share = f"{100 * c.flops / flops:.1f} %"
        table.add_row(
            c.name,
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
