"""Writing a model to a file."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from ..errors import ModelError
from .load import Model

LARGEST_INLINE = 1_900_000_000  # bytes; a protobuf ends at 2 GB


def save(model: Model, path: Path) -> None:
    """Write `model` to `path`, its weights beside it in `<name>.data` if they are over 2 GB or were external before.

    Raises:
        ModelError: the file cannot be written.
    """
    weights = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    external = any(isinstance(t, ir.ExternalTensor) for t in weights) or sum(t.nbytes for t in weights) > LARGEST_INLINE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ir.save(model.ir, path, external_data=f"{path.name}.data" if external else None)
    except OSError as error:
        raise ModelError(f"Cannot write {path}: {error}") from error
