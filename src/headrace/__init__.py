"""headrace: a compiler and runtime for ONNX models without performance cliffs."""

from .backends import Device, devices
from .errors import DeviceError, HeadraceError, InputError, ModelError, UnsupportedNode, UnsupportedOpError
from .feeds import NodeArg
from .model import Note
from .session import InferenceSession, optimize
from .version import __version__
from .web import export_web

__all__ = [
    "Device",
    "DeviceError",
    "HeadraceError",
    "InferenceSession",
    "InputError",
    "ModelError",
    "NodeArg",
    "Note",
    "UnsupportedNode",
    "UnsupportedOpError",
    "__version__",
    "devices",
    "export_web",
    "optimize",
]
