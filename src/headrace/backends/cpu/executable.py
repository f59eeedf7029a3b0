"""The CPU device: ONNX Runtime on the model as it was rewritten for the shapes at hand."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ...errors import DeviceError, HeadraceError
from ...model import Model, Note
from ...model.proto import shared_proto
from ...model.shapes import Dims, annotate_types, infer_shapes, input_dims
from ...rules import Context, Rule, Target, apply_rules
from ...rules.affine import fold_into_convolution
from ...rules.conv_transpose import polyphase
from ...rules.tidy import drop_unused
from ..base import is_device_array
from ..spans import Phases, Recorder
from .fft_rules import FFT_RULES, may_change, reshaped_output
from .ort_session import create, default_threads, translated
from .segments import Segments, UntypedValue, build
from .steps import Workers
from .supported import require_known
from .watch import Watch, named

CPU_RULES: tuple[Rule, ...] = (*FFT_RULES, fold_into_convolution, polyphase, reshaped_output)
KEPT_SHAPES = 1024


@dataclass(slots=True)
class Variant:
    """One rewritten form of the model, ready to run."""

    session_run: Callable[..., list[Any]] | None  # of ONNX Runtime where the whole graph is one session, else None
    segments: Segments | None
    notes: list[Note]
    model: Model | None = None  # what is run, where it is kept for a profile

    def run(self, names: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
        if self.session_run is not None:
            return self.session_run(names, feeds)
        assert self.segments is not None
        return self.segments.run(names, feeds)


class CpuExecutable:
    """ONNX Runtime with our steps. The form of each node is chosen when its shapes are known: at once for a model with
    fixed shapes, else at the first run of a shape; runs that come to the same choice share a session."""

    def __init__(
        self,
        model: Model,
        *,
        threads: int | None = None,
        dft_tolerance: float | None = None,
        watch: Watch | None = None,
    ) -> None:
        require_known(model.graph)
        self.phases = Phases()
        self._watch = watch
        self._model = model if watch is None else named(model)
        self._threads = threads or default_threads()
        self._tolerance = dft_tolerance
        self._workers = Workers(self._threads)
        self._lock = threading.Lock()
        self._by_choice: dict[tuple[str, ...], Variant] = {}
        self._by_shapes: OrderedDict[object, Variant] = OrderedDict()
        self._memo: dict[object, Any] = {}
        self._closed = False
        self._may_change = any(may_change(n) for n in model.graph)
        self._varies = self._may_change and any(d is None or None in d for d in input_dims(model).values())
        with self.phases.phase("optimize"):
            self._current = self._variant(input_dims(model))

    @property
    def notes(self) -> Sequence[Note]:
        return self._current.notes

    @property
    def plan(self) -> None:
        """ONNX Runtime keeps its own; the CPU device has no plan."""
        return None

    def run(
        self,
        output_names: Sequence[str],
        feeds: Mapping[str, Any],
        keep_on_device: bool = False,
        recorder: Recorder | None = None,
    ) -> list[Any]:
        if self._watch is not None:
            self._watch.recorder = recorder
        feeds = {name: a.numpy() if is_device_array(a) else a for name, a in feeds.items()}
        variant = self._current if not self._varies else self._variant_for(feeds)
        if self._closed:
            raise DeviceError("This session is closed: create another one.")
        try:
            return variant.run(output_names, feeds)
        except HeadraceError:
            raise
        except Exception as error:  # ONNX Runtime's own classes derive from Exception directly
            raise translated(error) from error

    def profiled(self) -> CpuExecutable:
        """The same, but recording: ONNX Runtime writes profiles only for sessions that were made so."""
        return CpuExecutable(self._model, threads=self._threads, dft_tolerance=self._tolerance, watch=Watch())

    def collect(self, feeds: Mapping[str, Any]) -> None:
        """After the last recorded run: what ONNX Runtime wrote goes to the recorders."""
        if self._watch is not None:
            model = self._current.model or self._model
            self._watch.collect(model, {name: tuple(array.shape) for name, array in feeds.items()})

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        with self._lock:
            self._closed = True
            self._by_choice.clear()
            self._by_shapes.clear()
            self._current = Variant(None, None, self._current.notes)
            self._workers.close()

    def _variant_for(self, feeds: Mapping[str, Any]) -> Variant:
        key = tuple((name, array.shape) for name, array in sorted(feeds.items()))
        with self._lock:
            found = self._by_shapes.get(key)
            if found is None:
                with self.phases.phase("optimize"):
                    found = self._variant({name: tuple(array.shape) for name, array in feeds.items()})
                self._by_shapes[key] = found
                if len(self._by_shapes) > KEPT_SHAPES:
                    self._by_shapes.popitem(last=False)
            self._current = found
            return found

    def _variant(self, inputs: Mapping[str, Dims | None]) -> Variant:
        """The form for these shapes, created unless another shape came to the same choice."""
        if not self._may_change:
            return self._by_choice.setdefault((), self._plain(self._model, list(self._model.notes)))
        try:
            return self._chosen(inputs, CPU_RULES)
        except UntypedValue as value:
            found = self._chosen(inputs, tuple(rule for rule in CPU_RULES if rule not in (*FFT_RULES, reshaped_output)))
            found.notes.append(Note("cpu", "", f"no FFT steps: the type of {value} cannot be inferred", refused=True))
            return found

    def _chosen(self, inputs: Mapping[str, Dims | None], rules: Sequence[Rule]) -> Variant:
        model = self._model.clone()
        annotate_types(model)
        shapes = infer_shapes(model, inputs)
        context = Context(model, Target.CPU, shapes, self._tolerance, self._threads, memo=self._memo)
        rewritten = apply_rules(context, rules)
        if rewritten:
            drop_unused(model)
            annotate_types(model)
        choice = tuple(_fingerprint(node) for node in model.graph if "origins" in node.meta)
        if choice not in self._by_choice:
            self._by_choice[choice] = self._create(model if rewritten else self._model, rewritten, model.notes)
        return self._by_choice[choice]

    def _create(self, model: Model, rewritten: int, notes: list[Note]) -> Variant:
        if any("step" in node.meta for node in model.graph):
            with self.phases.phase("compile"):
                segments = build(model, self._threads, self._workers, self._watch)
            return Variant(None, segments, notes, model if self._watch is not None else None)
        return self._plain(model, notes)

    def _plain(self, model: Model, notes: list[Note]) -> Variant:
        """The whole graph as one session of ONNX Runtime."""
        source: Any = model.path
        if model.path is None or model.changed:
            graph = model.graph
            source = shared_proto(model, graph, graph.inputs, graph.outputs, _used(graph))
        with self.phases.phase("compile"):
            session = create(source, self._threads, profiles=None if self._watch is None else self._watch.folder)
        run = session.run if self._watch is None else self._watch.session(session)
        return Variant(run, None, notes, model if self._watch is not None else None)


def _fingerprint(node: ir.Node) -> str:
    """What tells one rewritten form of a node from another: two shapes may ask for different crops or reshapes."""
    small = [v.const_value for v in node.inputs if v is not None and v.const_value is not None]
    integers = [t.numpy().tolist() for t in small if t.dtype == ir.DataType.INT64 and t.size < 64]
    attributes = [str(a) for a in node.attributes.values()]
    return f"{node.name} {node.op_type} {attributes} {integers} {node.meta.get('key', '')}"


def _used(graph: ir.Graph) -> list[ir.Value]:
    """Initializers that the graph still reads; a subgraph may read any of them."""
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for n in graph for a in n.attributes.values()):
        return list(graph.initializers.values())
    return [v for v in graph.initializers.values() if v.uses() or v.is_graph_output()]
