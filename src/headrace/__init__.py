"""headrace: a compiler and runtime for ONNX models without performance cliffs."""

from .errors import DeviceError, HeadraceError, InputError, ModelError, UnsupportedNode, UnsupportedOpError
from .version import __version__

__all__ = ["DeviceError", "HeadraceError", "InputError", "ModelError", "UnsupportedNode", "UnsupportedOpError", "__version__"]
