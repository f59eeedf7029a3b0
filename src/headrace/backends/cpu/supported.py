"""Which operators ONNX Runtime knows: asked before it is given a model, so that all unknown ones are told at once."""

from __future__ import annotations

from functools import cache

import onnx
import onnx_ir as ir
from onnxruntime.capi import onnxruntime_pybind11_state

from ...errors import UnsupportedNode, UnsupportedOpError
from ...rules.driver import label


def require_known(graph: ir.Graph) -> None:
    """Raise UnsupportedOpError listing every node whose operator is in no domain that ONNX Runtime knows."""
    unknown = [
        UnsupportedNode(label(node), node.op_type, node.domain, "no such operator in ONNX or ONNX Runtime")
        for node in graph.all_nodes()
        if not _known(node.domain, node.op_type)
    ]
    if unknown:
        raise UnsupportedOpError(unknown, "Register its domain with ONNX, or export the model with standard operators.")


@cache
def _known(domain: str, op_type: str) -> bool:
    domain = "" if domain == "ai.onnx" else domain
    return onnx.defs.has(op_type, domain) or (domain, op_type) in _runtime_schemas()


@cache
def _runtime_schemas() -> frozenset[tuple[str, str]]:
    return frozenset((s.domain, s.name) for s in onnxruntime_pybind11_state.get_all_operator_schema())
