"""One plan for many sizes: it is made with the dynamic dimensions as expressions, and holds where its guards do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from ..dtypes import Array
from ..errors import InputError
from ..kernels.emit import word
from ..kernels.size import Guard, Trace, evaluated
from ..model import Model
from ..target import Target
from .lower import Graph, Spec
from .plan import Binding, Plan
from .whole import Whole, whole_plan

NO_NAME = (None, "", "?", "-1", "None")
Form = tuple[Sequence[int | str], ir.DataType]  # of an input: ints, and names of dimensions


@dataclass(frozen=True, slots=True)
class General:
    """A plan whose numbers may be sizes, and what must hold of the dimensions."""

    plan: Plan
    guards: tuple[Guard, ...]
    hints: Mapping[str, int]

    def admits(self, dims: Mapping[str, int]) -> bool:
        """Whether the plan is right at these sizes."""
        return min(dims.values(), default=1) > 0 and all(g.holds(dims) for g in self.guards)

    def at(self, dims: Mapping[str, int]) -> Plan:
        """The plan for these sizes, which must be admitted."""
        return at_sizes(self.plan, dims)


def forms_of(model: Model) -> dict[str, Form]:
    """The inputs of a model; a dimension without a name, or with what exporters write for none, is called after its
    input and axis: two of them need not be equal. Raises InputError for an input of unknown rank."""
    forms: dict[str, Form] = {}
    for value in model.graph.inputs:
        name = str(value.name)
        if value.shape is None:
            raise InputError(f"Input {name!r} has no shape in the model: give input_shapes.")
        shape = tuple(
            int(d) if isinstance(d, int) else f"{name}[{i}]" if d.value in NO_NAME else str(d.value)
            for i, d in enumerate(value.shape)
        )
        forms[name] = (shape, value.dtype or ir.DataType.FLOAT)
    return forms


def general_plan(
    graph: Graph,
    inputs: Mapping[str, Form],
    hints: Mapping[str, int],
    target: Target,
    stored: dict[str, Array],
    traces: list[Trace] | None = None,
) -> tuple[General, Whole]:
    """The plan of `graph` for all sizes, as far as it goes; choices of speed are made for `hints`. What is left to the
    host (`Whole.refused`) has no place in it. `traces` gets the traces, also where an exception ends the last one."""
    for exact in (False, True):
        trace = Trace(hints)
        if traces is not None:
            traces.append(trace)
        specs = {
            name: Spec(tuple(trace.dims[d] if isinstance(d, str) else d for d in shape), dtype)
            for name, (shape, dtype) in inputs.items()
        }
        whole = whole_plan(graph, specs, target, stored, exact=exact)
        if not whole.refused:
            break
    return General(whole.plan, trace.guards, dict(hints)), whole


def at_sizes(plan: Plan, dims: Mapping[str, int]) -> Plan:
    """`plan` with every size evaluated. Dispatches that have no workgroups then are left out."""
    memo: dict[str, int] = {}

    def value(x: Any) -> Any:
        return evaluated(x, dims, memo)

    uniforms = bytearray(plan.uniforms)
    for at, type_, size in plan.fields:
        uniforms[at : at + 4] = word(type_, value(size))
    dispatches = [
        replace(
            d,
            groups=value(d.groups),
            bindings=tuple(Binding(b.slot, value(b.offset), value(b.size)) for b in d.bindings),
            flops=value(d.flops),
            bytes=value(d.bytes),
        )
        for d in plan.dispatches
    ]
    return replace(
        plan,
        dispatches=tuple(d for d in dispatches if 0 not in d.groups),
        slots=tuple(replace(s, size=value(s.size)) for s in plan.slots),
        uploads=tuple(
            replace(u, offset=value(u.offset), size=value(u.size), shape=value(u.shape)) for u in plan.uploads
        ),
        readbacks=tuple(
            replace(r, offset=value(r.offset), size=value(r.size), target=value(r.target), shape=value(r.shape))
            for r in plan.readbacks
        ),
        uniforms=bytes(uniforms),
        staging_bytes=value(plan.staging_bytes),
        fields=(),
    )


__all__ = ["Form", "General", "Guard", "at_sizes", "forms_of", "general_plan"]
