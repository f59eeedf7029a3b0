"""Known whole numbers of which some are sizes: what a graph computes from shapes while these are not known yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array
from .size import Size


class SizeArray(np.ndarray):
    """An array of objects, ints and Sizes, that stands for one of `type`: integers, or floats that integers became."""

    type: np.dtype[Any]

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, SizeArray) and hasattr(source, "type"):  # a view stands for the type of what it views
            self.type = source.type


def known_array(values: Any, dtype: Any) -> Array:
    """`values` (nested lists or an array of objects) as `dtype`; a SizeArray where one is a Size."""
    objects = np.asarray(values, object)
    if not any(isinstance(v, Size) for v in objects.flat):
        return objects.astype(dtype)
    made = objects.view(SizeArray)
    made.type = np.dtype(dtype)
    return made


def fixed(array: Array) -> Array:
    """Plain integers: those of the sizes that are traced, with guards."""
    return np.asarray(array, object).astype(array.type) if isinstance(array, SizeArray) else array


def dtype_of(array: Array) -> np.dtype[Any]:
    """The type that an array has or stands for."""
    return array.type if isinstance(array, SizeArray) else array.dtype


def is_whole(array: Array) -> bool:
    """Whether all values are whole numbers."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all() and (array == np.floor(array)).all())
