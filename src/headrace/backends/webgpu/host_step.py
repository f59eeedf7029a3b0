"""A node that runs in ONNX Runtime between two device segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...dtypes import Array
from ...errors import InputError, UnsupportedOpError
from ...plan import Graph
from ...plan.lower import Step, reads, unsupported
from ..cpu.ort_session import translated


class HostNode:
    """One ONNX node with its own ONNX Runtime session, made at the first run of each set of input dtypes."""

    def __init__(self, step: Step, graph: Graph, reason: str, threads: int | None) -> None:
        self.step, self.graph, self.reason, self.threads = step, graph, reason, threads
        self.reads = reads(step)
        self._sessions: dict[tuple[Any, ...], Any] = {}

    def run(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """The node's outputs. Raises UnsupportedOpError where ONNX Runtime refuses the node too."""
        feeds: dict[str, Array] = {}
        for name in self.reads:
            value = values[name] if name in values else self.graph.constants[name]
            feeds[name] = value.numpy() if hasattr(value, "numpy") else value
        key = tuple((n, *_kind(a)) for n, a in feeds.items())
        try:
            if key not in self._sessions:
                self._sessions[key] = self._session(feeds)
            names = [v.name or "" for v in self.step.node.outputs if v.name]
            return dict(zip(names, self._sessions[key].run(names, feeds), strict=True))
        except Exception as error:  # ONNX Runtime raises many kinds; all mean that this node cannot run here
            said = translated(error)
            if isinstance(said, InputError) or "ShapeInferenceError" in str(error):
                raise InputError(f"Node {self.step.name!r} ({self.step.node.op_type}): {said}") from error
            reason = f"{self.reason}; ONNX Runtime: {error}"
            raise UnsupportedOpError([unsupported(self.step, reason)]) from error

    def _session(self, feeds: Mapping[str, Array]) -> Any:
        import onnxruntime as ort

        node = ir.to_proto(self.step.node)
        assert isinstance(node, onnx.NodeProto)
        inputs = [onnx.helper.make_value_info(n, _type(a)) for n, a in feeds.items()]
        outputs = [onnx.ValueInfoProto(name=v.name) for v in self.step.node.outputs if v.name]
        graph = onnx.helper.make_graph([node], "host", inputs, outputs)
        opsets = [onnx.helper.make_opsetid(d, v) for d, v in self.graph.model.graph.opset_imports.items()]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=min(10, onnx.IR_VERSION))
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = self.threads or 0
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _kind(value: Any) -> tuple[Any, ...]:
    """What tells the session of a value from another's."""
    return (value.dtype.str, value.ndim) if isinstance(value, np.ndarray) else ("sequence", *map(_kind, value[:1]))


def _type(value: Any) -> onnx.TypeProto:
    """The ONNX type of a value: a tensor of any size, or a sequence of such."""
    if not isinstance(value, np.ndarray):
        element = _type(value[0]) if value else onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        element.tensor_type.ClearField("shape")
        return onnx.helper.make_sequence_type_proto(element)
    text = value.dtype.kind in "OUST"
    dtype = ir.DataType.STRING if text else ir.DataType.from_numpy(value.dtype)
    return onnx.helper.make_tensor_type_proto(int(dtype), [None] * value.ndim)
