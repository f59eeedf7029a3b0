"""From an ONNX graph and concrete inputs to lazy tensors: one walk, in which every value is known or a tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from ..dtypes import Array, OutOfRange, value_type
from ..errors import HeadraceError, InputError, UnsupportedNode
from ..kernels.expr import Buffer, Fill, Tensor
from ..kernels.known import SizeArray, fixed
from ..kernels.size import hint
from ..model import Model, Note
from ..ops import OPS, Call, Refuse
from ..ops.movement import sizes_tensor
from ..ops.operands import check_width, misfit, negative_size, window_misses
from ..ops.refused import REASONS
from ..ops.registry import Value, in_half, to_tensor
from ..ops.sequence import NAMES as SEQUENCE_OPS
from ..ops.sequence import TensorSequence
from ..rules.driver import label
from ..rules.phase import with_phases
from ..target import Target
from .host import evaluate, evaluate_sizes
from .plan import HostStep

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
HOST_NODES = "asked for by host_nodes"
NO_KERNEL = "no kernel for this operator"
SMALL = 64  # known values up to this many elements are compared by value, larger ones by identity
KEPT_BYTES = 64 << 20  # of large known results that one graph remembers
INLINE = {"If", "Loop", "Scan"}
CONDITIONS = {"If": (0,), "Loop": (0, 1)}  # inputs that say what is inlined, and how often


@dataclass(frozen=True, slots=True)
class Spec:
    """What lowering knows of an input that arrives at run time."""

    shape: tuple[int, ...]
    dtype: ir.DataType


@dataclass(slots=True)
class Step:
    """A node with its attributes as Python values."""

    node: ir.Node
    attributes: dict[str, Any]
    name: str
    opset: int = 0  # of the function whose body it is a part of; 0: the model's


@dataclass(slots=True)
class Graph:
    """A graph prepared once: constants folded, attributes unpacked. `constants` stay for the life of the session."""

    model: Model
    constants: dict[str, Array]
    steps: list[Step]
    packings: dict[str, Array] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    inner: dict[int, list[Step]] = field(default_factory=dict)
    functions: dict[Any, Any] = field(default_factory=dict)
    computed: dict[tuple[Any, ...], tuple[list[Array], list[Array]]] = field(default_factory=dict)

    def remember(self, key: tuple[Any, ...], values: list[Array], inputs: list[Array]) -> None:
        """Keep large known results by what they came from, the newest of them: a key may hold the identity of an input,
        so that input stays as long as the key."""
        self.computed[key] = (values, inputs)
        size = sum(a.nbytes for kept, _ in self.computed.values() for a in kept)
        while size > KEPT_BYTES and len(self.computed) > 1:
            kept, _ = self.computed.pop(next(iter(self.computed)))
            size -= sum(a.nbytes for a in kept)


@dataclass(slots=True)
class Lowered:
    """The walk's result: a value for each output that could be computed, and the nodes that could not."""

    values: dict[str, Value]
    refused: list[tuple[Step, str]]
    pending: list[Step]
    notes: list[Note]


def attributes_of(node: ir.Node) -> dict[str, Any]:
    """Attributes as Python values: ints, floats, str, tuples, numpy arrays; graphs as they are."""
    result: dict[str, Any] = {}
    for name, a in node.attributes.items():
        value = a.value
        if a.type == ir.AttributeType.TENSOR:
            value = value.numpy()
        elif isinstance(value, bytes):
            value = value.decode()
        result[name] = value
    return result


def prepare_graph(model: Model) -> Graph:
    """Unpack a model once; nodes that read only constants are computed here."""
    model = with_phases(model)
    graph = Graph(model, {}, [])
    for name, value in model.graph.initializers.items():
        assert value.const_value is not None
        graph.constants[name] = value.const_value.numpy()
    for node in model.graph:
        step = Step(node, attributes_of(node), label(node))
        if not _fold_constant(graph, step):
            graph.steps.append(step)
    graph.names = {id(a): n for n, a in graph.constants.items()}
    return graph


def _fold_constant(graph: Graph, step: Step) -> bool:
    node = step.node
    if node.op_type == "Constant" and node.domain == "":
        value = constant_value(step.attributes)
        if value is None:
            return False
        graph.constants[_out(node)] = value
        return True
    if (
        node.op_type in RANDOM
        or node.op_type in INLINE
        or node.op_type in SEQUENCE_OPS
        or not all(v is None or v.name in graph.constants for v in node.inputs)
    ):
        return False
    try:
        inputs = [None if v is None else graph.constants[v.name or ""] for v in node.inputs]
        values = evaluate(node, inputs, step.attributes, graph.model.opset)
    except Exception:  # whatever the host cannot compute is lowered like any other node, or refused there by name
        return False
    graph.constants.update((v.name or "", a) for v, a in zip(node.outputs, values, strict=False))
    return True


def constant_value(attributes: Mapping[str, Any]) -> Array | None:
    """The value of a Constant node; None for strings and sparse tensors."""
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in attributes:
            return np.asarray(attributes[name], dtype)
    value = attributes.get("value")
    return value if isinstance(value, np.ndarray) else None


def _out(node: ir.Node) -> str:
    return node.outputs[0].name or ""


def host_inputs(graph: Graph) -> set[str]:
    """Graph inputs whose values lowering must know: those from which shapes, axes or pads are computed. A float input
    is one only where it is such an operand itself (scales) or one number: float arithmetic runs on the device."""
    floats = {v.name or "" for v in graph.model.graph.inputs if _is_float_tensor(v)}
    inputs = {v.name or "" for v in graph.model.graph.inputs} | set(graph.model.constants_fed)
    depends: dict[str, list[str]] = {}
    stack: list[str] = []
    for step in graph.steps:
        for node in [step.node, *(n for g in _subgraphs(step) for n in g.all_nodes())]:
            _note_dependencies(node, depends)
            entry = OPS.get((node.domain, node.op_type))
            known = entry.known if entry else CONDITIONS.get(node.op_type, ())
            stack += [v.name or "" for i in known if i < len(node.inputs) and (v := node.inputs[i]) is not None]
    direct, seen = set(stack), set[str]()
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += depends.get(name, ())
    return {n for n in seen & inputs if n in direct or n not in floats}


def _note_dependencies(node: ir.Node, depends: dict[str, list[str]]) -> None:
    """What the value of each output, and of each input of a body, comes from; shapes come from no value."""
    if node.op_type in ("Shape", "Size"):
        return
    sources = ["" if v is None else v.name or "" for v in node.inputs]
    bodies = [a.value for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    results = [v.name or "" for body in bodies for v in body.outputs]
    if node.op_type == "Loop":  # iteration, condition and state go in; condition and state come out
        depends.update(
            (v.name or "", [*pair]) for v, *pair in zip(bodies[0].inputs[1:], sources[1:], results, strict=False)
        )
    elif node.op_type == "Scan":
        depends.update((v.name or "", [source]) for v, source in zip(bodies[0].inputs, sources, strict=False))
    depends.update((v.name or "", [*sources, *results]) for v in node.outputs)


def _is_float_tensor(v: ir.Value) -> bool:
    one = v.shape is not None and all(d == 1 for d in v.shape)
    return not one and v.dtype is not None and v.dtype.is_floating_point()


class Walk:
    """One walk over a graph. With `exact`, what is computed from sizes that are expressions is computed for the traced
    ones where it can no longer be an expression; without it, by the device."""

    def __init__(self, graph: Graph, target: Target, host_nodes: Iterable[str] = (), exact: bool = False) -> None:
        self.exact = exact
        self.graph, self.target, self.host_nodes = graph, target, set(host_nodes)
        self.env: dict[str, Value] = {}
        self.refused: list[tuple[Step, str]] = []
        self.pending: list[Step] = []
        self.notes: list[Note] = []
        self.packings = graph.packings
        self.memo = graph.memo
        self._lifted: dict[int, Tensor] = {}
        self._waiting: set[str] = set()
        self.sequences_on_host = False  # what a node on the host reads cannot be a list of lazy tensors
        self._off_device: dict[str, str] = {}  # inputs that stay on the host -> what they are
        self._held: list[Array] = []

    def run(self, inputs: Mapping[str, Spec | Array], steps: Sequence[Step] | None = None) -> Lowered:
        """Lower `steps` (all by default) with these inputs, known or not."""
        for name, value in inputs.items():
            if isinstance(value, Spec) and value_type(value.dtype) is None:
                kind = "a sequence" if value.dtype == ir.DataType.UNDEFINED else value.dtype.name.lower()
                self._off_device[name] = kind
                continue
            self.env[name] = self.input(name, value)
        for step in self.graph.steps if steps is None else steps:
            self.step(step)
        return Lowered(self.env, self.refused, self.pending, self.notes)

    def input(self, name: str, value: Spec | Array) -> Value:
        """An input of the run as a value."""
        if isinstance(value, np.ndarray):
            return value
        if value.dtype in (ir.DataType.DOUBLE, ir.DataType.BFLOAT16) or (
            value.dtype == ir.DataType.FLOAT16 and not self.target.f16
        ):
            self.notes.append(
                Note("lower", "", f"{name!r} is {value.dtype.name.lower()}: the device computes it in float32")
            )
        return Buffer(f"input:{name}", value.shape, value.dtype)

    def lookup(self, name: str) -> Value:
        """A value by its ONNX name."""
        found = self.env.get(name)
        return self.graph.constants[name] if found is None else found

    def step(self, step: Step) -> None:
        """Lower one node, or put it off if it waits for a host step."""
        node = step.node
        if self._waiting and not self._waiting.isdisjoint(reads(step)):
            self._postpone(step)
            return
        kept = next((n for n in reads(step) if n in self._off_device), None) if self._off_device else None
        try:
            if kept is not None:
                raise Refuse(f"{kept!r} is {self._off_device[kept]}: it stays on the host")
            inputs = [None if v is None else self.lookup(v.name or "") for v in node.inputs]
            values = self._fitting(step, inputs)
        except (Refuse, OutOfRange) as reason:
            self.refused.append((step, str(reason)))
            self._waiting.update(v.name or "" for v in node.outputs)
            return
        for v, value in zip(node.outputs, values, strict=False):
            if value is not None and v.name:
                self.env[v.name] = value

    def _postpone(self, step: Step) -> None:
        self.pending.append(step)
        self._waiting.update(v.name or "" for v in step.node.outputs)

    def _fitting(self, step: Step, inputs: list[Value | None]) -> Sequence[Value | None]:
        """Outputs of a node. Raises InputError, naming the node, for operands that do not fit."""
        node = step.node
        try:
            reason = misfit(self._call(step, inputs)) if node.domain == "" else None
            values = [] if reason else self._values(step, inputs)
            shapes = [v.shape for v in values if isinstance(v, Tensor | np.ndarray)]
            first = inputs[0] if inputs else None
            if negative_size(shapes) or (
                isinstance(first, Tensor) and window_misses(node.op_type, first.shape, *shapes[:1])
            ):
                reason = "its result would have no size"
        except (Refuse, OutOfRange, HeadraceError):
            raise
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(_misfit_text(step, inputs, str(error))) from error
        if reason:
            raise InputError(_misfit_text(step, inputs, reason))
        for value, v in zip(values, node.outputs, strict=False):
            if isinstance(value, TensorSequence) and any(v is o for o in self.graph.model.graph.outputs):
                raise Refuse("a sequence that leaves the model")
        return values

    def _values(self, step: Step, inputs: list[Value | None]) -> Sequence[Value | None]:
        node = step.node
        if not self.host_nodes.isdisjoint({step.name, node.name, *(v.name for v in node.outputs)}):
            raise Refuse(HOST_NODES)
        if self.sequences_on_host and node.op_type in SEQUENCE_OPS:
            raise Refuse("a position in its sequence is known only when it runs")
        if node.op_type in INLINE and node.domain == "":
            return self._control(step, inputs)
        if node.op_type == "Constant":
            value = constant_value(step.attributes)
            if value is None:
                raise Refuse("a constant that is not a tensor of numbers")
            return [value]
        if (
            node.op_type not in RANDOM
            and node.op_type not in SEQUENCE_OPS
            and not any(isinstance(v, Tensor | TensorSequence) for v in inputs)
        ):
            done = self._known(step, inputs)
            if done is not None:
                return done
        entry = OPS.get((node.domain, node.op_type))
        try:
            if entry is None:
                raise Refuse(NO_KERNEL)
            call = self._call(step, inputs)
            check_width(call)
            result: Any = entry.lower(call)
            single = isinstance(result, Tensor | np.ndarray | TensorSequence)
            return [result] if single else result
        except Refuse as reason:
            if any(isinstance(v, TensorSequence) for v in inputs):
                self.sequences_on_host = True  # for the next walk
                raise
            from .functions import lower_function

            by_definition = lower_function(self, step, inputs, reason)
            if by_definition is None:
                raise
            return by_definition

    def _control(self, step: Step, inputs: list[Value | None]) -> Sequence[Value | None]:
        from .control import lower_control

        try:
            return lower_control(self, step, inputs)
        except Refuse:
            if any(isinstance(self.env.get(name), TensorSequence) for name in reads(step)):
                self.sequences_on_host = True  # for the next walk
            raise

    def _call(self, step: Step, inputs: list[Value | None]) -> Call:
        return Call(
            step.name,
            step.node.op_type,
            list(inputs),
            step.attributes,
            self.opset_of(step),
            self.target,
            len(step.node.outputs),
            self.lift,
            self.name_of,
            self.notes.append,
        )

    def hopeless(self, steps: Iterable[Step]) -> list[UnsupportedNode]:
        """Those of nodes that wait for others which have no kernel whatever their inputs will be."""
        from .functions import has_definition

        found = []
        for step in steps:
            node, key = step.node, (step.node.domain, step.node.op_type)
            handled = key in OPS or node.op_type in INLINE or node.op_type == "Constant"
            if node.op_type in REASONS and node.domain == "":
                found.append(unsupported(step, REASONS[node.op_type]))
            elif not handled and not has_definition(node.op_type, node.domain, self.opset_of(step)):
                found.append(unsupported(step, NO_KERNEL))
        return [u for u in found if u.name not in self.host_nodes]

    def opset_of(self, step: Step) -> int:
        """The version of its domain that a node is written for."""
        if step.node.domain:
            return self.graph.model.graph.opset_imports.get(step.node.domain, 1)
        return step.opset or self.graph.model.opset

    def _known(self, step: Step, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        if step.node.op_type in ("Shape", "Size"):
            return None
        if step.node.op_type == "ConstantOfShape" and not (self.exact and isinstance(inputs[0], SizeArray)):
            return None
        if step.node.op_type == "Range" and inputs[0] is not None and inputs[0].dtype.kind == "f":  # type: ignore[union-attr]
            return None  # an expression of the coordinate, in whichever kernel reads it
        arrays = [v if isinstance(v, np.ndarray) else None for v in inputs]
        if any(isinstance(a, SizeArray) for a in arrays):
            found = self._from_sizes(step, arrays)
            if found is not None or not self.exact:
                return found
            arrays = [None if a is None else fixed(a) for a in arrays]
        key = (
            id(step.node),
            *(None if a is None else (a.shape, a.tobytes()) if a.size <= SMALL else id(a) for a in arrays),
        )
        values, _ = self.graph.computed.get(key, (None, None))
        if values is None:
            try:
                values = evaluate(step.node, arrays, step.attributes, self.opset_of(step))
            except Exception:  # the host has no such operator or cannot do it with these values: the device may
                return None
            if any(a.size > SMALL for a in values):
                self.graph.remember(key, values, [a for a in arrays if a is not None])
        self._held += values
        return values

    @staticmethod
    def _from_sizes(step: Step, arrays: Sequence[Array | None]) -> list[Array] | None:
        try:
            return evaluate_sizes(step.node.op_type, arrays, step.attributes, len(step.node.outputs))
        except Exception:  # the device may do what the host cannot
            return None

    def lift(self, array: Array, node: str) -> Tensor:
        """A known value as a tensor; constants of the model keep their name, others are named after their bytes."""
        if isinstance(array, SizeArray):
            return sizes_tensor(array, node)
        found = self._lifted.get(id(array))
        if found is None:
            name = self.name_of(array)
            if name is None and array.size > 1:
                data = np.ascontiguousarray(array)
                name = f"{array.dtype}:{hashlib.blake2b(data.tobytes(), digest_size=12).hexdigest()}"
            if array.dtype.itemsize == 8 and array.dtype.kind in "iu" and array.size > 1 and name:
                _check_range(array, name)
            found = to_tensor(array, name or "scalar")
            if isinstance(found, Buffer) and self.name_of(array) is not None:
                found.half = in_half(array, self.target)
            self._lifted[id(array)] = found
            self._held.append(array)
        return found

    def name_of(self, array: Array) -> str | None:
        """The name of a constant of the model."""
        return self.graph.names.get(id(array))


def _check_range(array: Array, name: str) -> None:
    low, high = int(array.min()), int(array.max())
    if low < -(2**31) or high >= 2**32 or (high >= 2**31 and array.dtype.kind == "i"):
        raise Refuse(f"the constant {name!r} has values from {low} to {high}: they do not fit 32 bits")


def _subgraphs(step: Step) -> list[ir.Graph]:
    return [v for v in step.attributes.values() if isinstance(v, ir.Graph)]


def reads(step: Step) -> list[str]:
    """Names that a node reads, once each: its inputs, and what its subgraphs take from outside."""
    found = dict.fromkeys(v.name or "" for v in step.node.inputs if v is not None)
    for graph in _subgraphs(step):
        inside = {v.name for v in graph.inputs} | set(graph.initializers)
        inside |= {v.name for n in graph.all_nodes() for v in n.outputs}
        taken = [v for n in graph.all_nodes() for v in n.inputs if v is not None]
        found.update(dict.fromkeys(v.name or "" for v in (*taken, *graph.outputs) if v.name not in inside))
    return list(found)


def host_step(step: Step, reason: str) -> HostStep:
    """A node that runs on the host, as the plan lists it."""
    made = tuple(v.name or "" for v in step.node.outputs)
    return HostStep(step.name, step.node.op_type, reason, tuple(reads(step)), made)


def _misfit_text(step: Step, inputs: Sequence[Value | None], reason: str) -> str:
    shapes = [str([hint(n) for n in v.shape]) if isinstance(v, Tensor | np.ndarray) else "none" for v in inputs]
    return f"Node {step.name!r} ({step.node.op_type}) fails on inputs of shapes {', '.join(shapes)}: {reason}."


def unsupported(step: Step, reason: str) -> UnsupportedNode:
    """A refused node as the error reports it."""
    return UnsupportedNode(step.name, step.node.op_type, step.node.domain, reason)


__all__ = ["Fill", "Graph", "Lowered", "Refuse", "Spec", "Step", "Walk", "host_inputs", "prepare_graph", "unsupported"]
