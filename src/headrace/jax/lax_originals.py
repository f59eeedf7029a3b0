"""jax.lax's own functions, kept at import: `patch()` replaces the attributes of the module."""

from jax import lax

LAX_CONV = lax.conv_general_dilated
LAX_CONV_TRANSPOSE = lax.conv_transpose
