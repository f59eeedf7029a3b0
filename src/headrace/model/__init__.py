"""A model as it was loaded: onnx-ir's graph, with what loading had to say about it."""

from .load import Model, Note, load

__all__ = ["Model", "Note", "load"]
