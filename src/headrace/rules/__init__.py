"""The rewrites, in the order in which they are tried. A rule matches one node, and replaces it or says why not."""

from __future__ import annotations

import onnx_ir as ir

from ..model import Model
from ..model.shapes import annotate_types, infer_shapes, input_dims
from .affine import fold_into_convolution
from .conv_transpose import polyphase
from .driver import Context, Refusal, Replacement, Rule, Target, apply_rules
from .tidy import drop_identity, drop_unused, fold_constant

__all__ = ["EXPORT_RULES", "Context", "Refusal", "Replacement", "Rule", "Target", "apply_rules", "optimize_model"]

EXPORT_RULES: tuple[Rule, ...] = (
    fold_constant,
    drop_identity,
    fold_into_convolution,
    polyphase,
)


def optimize_model(model: Model, target: Target, rules: tuple[Rule, ...] = EXPORT_RULES, **options: object) -> Model:
    """A rewritten copy of `model`; its notes say what was done and what was refused."""
    model = model.clone()
    annotate_types(model)
    context = Context(model, target, infer_shapes(model, input_dims(model)), **options)  # type: ignore[arg-type]
    drop_unused(model)
    apply_rules(context, rules)
    drop_unused(model)
    for value in model.graph.outputs:  # ONNX wants them stated
        dims = context.shape(value)
        if value.shape is None and dims is not None:
            value.shape = ir.Shape(dims)
    return model
