"""From a path, bytes or a ModelProto to a `Model`: inlined, sorted, checked and repaired where the meaning is plain."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir import Graph, Value
from onnx_ir.passes import common as passes

from ..errors import ModelError
from .check import check_graph
from .repair import needs_types, repair
from .wire import without_weights

OLDEST_OPSET = 7


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that a stage did to a model, or refused to do, and why; `headrace explain` prints them."""

    stage: str  # "load", "rules", "cpu", "lower"
    node: str  # name of the ONNX node it is about; "" for the whole model
    text: str
    refused: bool = False


@dataclass(slots=True)
class Model:
    """A loaded model. `ir` is owned: who wants to change it calls `clone` first.

    `constants_fed` names initializers that are graph inputs too: constant unless they are fed.
    """

    ir: ir.Model
    path: Path | None = None
    notes: list[Note] = field(default_factory=list)
    changed: bool = False  # `ir` no longer says what `path` says
    constants_fed: dict[str, Value] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The main graph."""
        return self.ir.graph

    @property
    def opset(self) -> int:
        """Version of the default ONNX domain."""
        return self.ir.graph.opset_imports.get("", 1)

    def clone(self) -> Model:
        """A copy whose graph can be rewritten; weights are shared."""
        return Model(self.ir.clone(), self.path, list(self.notes), self.changed, dict(self.constants_fed))


ModelSource = str | os.PathLike[str] | bytes | onnx.ModelProto | Model


def load(source: ModelSource) -> Model:
    """Load an ONNX model.

    Args:
        source: path of a `.onnx` file (external data beside it is memory-mapped), its bytes, or a ModelProto.

    Raises:
        ModelError: not a model, truncated, a cycle, missing external data, or an opset older than 7.
    """
    if isinstance(source, Model):
        return source
    proto, path = _read(source)
    if not proto.graph.node and not proto.graph.output:
        raise ModelError(f"{_where(path)} holds no graph: it is not an ONNX model, or it was cut short.")
    try:
        model = ir.from_proto(proto)
        ir.external_data.set_base_dir(model.graph, str(path.parent) if path else "")
    except Exception as error:  # onnx-ir raises many kinds on malformed protos; all mean the same to a user
        raise ModelError(f"{_where(path)} is not a valid ONNX model: {error}") from error
    return _normalise(Model(model, path))


def _where(path: Path | None) -> str:
    return str(path) if path else "The model"


def _read(source: object) -> tuple[onnx.ModelProto, Path | None]:
    if isinstance(source, onnx.ModelProto):
        return source, None
    try:
        if isinstance(source, bytes | bytearray | memoryview):
            return onnx.load_model_from_string(bytes(source)), None
        path = Path(os.fspath(source))  # type: ignore[call-overload]
        if not path.is_file():
            raise ModelError(f"{path} is not a file: give the path of an .onnx file, its bytes, or an onnx.ModelProto.")
        return without_weights(path) or onnx.load(str(path), load_external_data=False), path
    except DecodeError as error:
        raise ModelError(
            f"{source if isinstance(source, str | os.PathLike) else 'The model'} "
            f"is not an ONNX file, or it is truncated: {error}"
        ) from error
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise ModelError(f"Cannot read the model: {error}") from error


def _normalise(model: Model) -> Model:
    graph = model.graph
    opset = graph.opset_imports.get("")
    if opset is not None and opset < OLDEST_OPSET:
        raise ModelError(
            f"The model is written for ONNX opset {opset}; headrace reads opset {OLDEST_OPSET} and newer. "
            "Convert it with onnx.version_converter.convert_version."
        )
    if model.ir.functions:
        passes.InlinePass()(model.ir)
        model.changed = True
        model.notes.append(Note("load", "", "functions inlined"))
    for value in list(graph.inputs):
        if value.name in graph.initializers:
            model.constants_fed[str(value.name)] = value
    if model.constants_fed:
        graph.inputs[:] = [v for v in graph.inputs if v.name not in model.constants_fed]
        model.changed = True
        names = ", ".join(model.constants_fed)
        model.notes.append(Note("load", "", f"initializers also listed as inputs are constant unless fed: {names}"))
    _check_inputs(model)
    try:
        before = [id(n) for n in graph]
        graph.sort()
        model.changed |= before != [id(n) for n in graph]
    except ValueError as error:
        raise ModelError(f"The graph has a cycle, so it has no order in which it can run: {error}") from error
    check_graph(graph)
    if needs_types(graph):
        from .shapes import annotate_types

        annotate_types(model)
    for node, text in repair(graph):
        model.changed = True
        model.notes.append(Note("load", node, text))
    return model


def _check_inputs(model: Model) -> None:
    """A dimension of -1 is an exporter's way to say that it is not fixed; any other negative one means nothing."""
    for value in model.graph.inputs:
        sizes = [d for d in value.shape or () if isinstance(d, int)]
        if any(size < -1 for size in sizes):
            raise ModelError(f"Input {value.name!r} has a negative dimension: {list(value.shape or ())}.")
        if -1 in sizes:
            value.shape = ir.Shape([None if d == -1 else d for d in value.shape or ()])
            model.changed = True
            model.notes.append(Note("load", "", f"input {value.name!r}: a dimension of -1 taken as not fixed"))
