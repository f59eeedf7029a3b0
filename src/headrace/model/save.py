"""Writing a model to a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from ..errors import ModelError
from .load import Model

LARGEST_INLINE = 1_900_000_000  # bytes; a protobuf ends at 2 GB


def save(model: Model, path: Path) -> None:
    """Write `model` to `path`, its weights beside it in `<name>.data` if they are over 2 GB or were external before.

    Raises:
        ModelError: the file cannot be written.
    """
    values = [v for v in model.graph.initializers.values() if v.const_value is not None]
    tensors = {str(v.name): v.const_value for v in values}
    external = any(isinstance(t, ir.ExternalTensor) and not _inline(t, model) for t in tensors.values())
    external |= sum(t.nbytes for t in tensors.values() if t is not None) > LARGEST_INLINE
    try:
        for value in values:  # what is mapped from the file that may be written over must be read first
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = ir.tensor(np.array(value.const_value.numpy()), name=value.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        ir.save(model.ir, path, external_data=f"{path.name}.data" if external else None)
    except OSError as error:
        raise ModelError(f"Cannot write {path}: {error}") from error
    finally:
        for value in values:
            value.const_value = tensors[str(value.name)]


def _inline(tensor: ir.ExternalTensor, model: Model) -> bool:
    """Was the tensor part of the model's own file, and only mapped from there?"""
    return model.path is not None and str(tensor.location) == model.path.name
