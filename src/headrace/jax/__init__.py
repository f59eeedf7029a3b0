"""Convolutions for JAX that multiply no zeros of a dilation. Needs the extra: `pip install headrace[jax]`."""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("headrace.jax needs jax: pip install headrace[jax]") from error

from .convolution import conv_general_dilated, conv_transpose
from .explanation import Explanation, explain
from .patching import patch
from .signal import istft, stft

__all__ = ["Explanation", "conv_general_dilated", "conv_transpose", "explain", "istft", "patch", "stft"]
