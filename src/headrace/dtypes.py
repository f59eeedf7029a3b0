"""What a tensor of each ONNX type becomes on a WebGPU device.

Values are computed as f32, i32, u32 or bool. Storage: float types are f32 (f16 for float16 where the adapter has
shader-f16), integers of every width are widened to i32 or u32, bool is one u32. int64 and uint64 are cut to 32 bits:
a fed value or constant that does not fit is refused, an intermediate wraps. float64 and bfloat16 are computed as f32.
Constants may be packed, several to a u32: "f16x2", "i8x4" and "u8x4" are read without any feature of the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Array = NDArray[Any]

_FLOAT = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE}
_SIGNED = {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.INT4}
_UNSIGNED = {ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64, ir.DataType.UINT4}
_NUMPY_STORAGE = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}
_PACKED = {"f16x2": np.float16, "i8x4": np.int8, "u8x4": np.uint8}
PACKED_STORAGE = {ir.DataType.FLOAT16: "f16x2", ir.DataType.INT8: "i8x4", ir.DataType.UINT8: "u8x4"}


def value_type(dtype: ir.DataType) -> str | None:
    """The WGSL type that values of `dtype` have in expressions; None where the device cannot hold them."""
    if dtype in _FLOAT:
        return "f32"
    if dtype in _SIGNED:
        return "i32"
    if dtype in _UNSIGNED:
        return "u32"
    return "bool" if dtype == ir.DataType.BOOL else None


def storage_type(dtype: ir.DataType, f16: bool) -> str:
    """The WGSL element type of a buffer that holds `dtype`; `f16` says whether the device has shader-f16."""
    if dtype == ir.DataType.FLOAT16 and f16:
        return "f16"
    value = value_type(dtype)
    return "u32" if value == "bool" else value or "u32"


def item_size(storage: str) -> int:
    """Bytes of one element of a storage type."""
    return np.dtype((_NUMPY_STORAGE | _PACKED)[storage]).itemsize


def element_type(storage: str) -> str:
    """The WGSL element type of a buffer of a storage type."""
    return "u32" if storage in _PACKED else storage


@dataclass(frozen=True, slots=True)
class OutOfRange(ValueError):
    """A value that does not fit the 32 bits of the device."""

    text: str


def to_storage(array: Array, storage: str) -> Array:
    """`array` as the device stores it, contiguous; packed storage as whole words, one after the other.

    Raises:
        OutOfRange: integers that need more than 32 bits.
    """
    if storage in _PACKED:
        data = array.astype(_PACKED[storage], copy=False).tobytes()
        return np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
    target = _NUMPY_STORAGE[storage]
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        info = np.iinfo(np.int32 if storage == "i32" else np.uint32)
        low, high = int(array.min()), int(array.max())
        if low < info.min or high > info.max:
            raise OutOfRange(
                f"values from {low} to {high} do not fit the {storage} that {array.dtype} is on the device"
            )
    return np.ascontiguousarray(array.astype(target, copy=False))


def from_storage(array: Array, dtype: ir.DataType) -> Array:
    """Device storage back to the dtype that the model names."""
    return array.astype(dtype.numpy(), copy=False)
