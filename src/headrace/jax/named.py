"""Arrays whose axes have names, so that packing is one transpose and one reshape whatever the caller's layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import jax
import numpy as np
from jax import lax


@dataclass(frozen=True, slots=True)
class Named:
    """An array and one name an axis. The first letter of a name is its role, see `geometry.Problem`."""

    array: jax.Array
    dims: tuple[str, ...]

    def size(self, name: str) -> int:
        """Length of the axis `name`."""
        return int(self.array.shape[self.dims.index(name)])

    def role(self, letter: str) -> tuple[str, ...]:
        """Names with this role, in axis order."""
        return tuple(d for d in self.dims if d[0] == letter)

    def pad(self, name: str, low: int, high: int, interior: int = 0) -> Named:
        """Zero padding of one axis; negative amounts crop."""
        if not (low or high or interior):
            return self
        config = [(low, high, interior) if d == name else (0, 0, 0) for d in self.dims]
        return Named(lax.pad(self.array, np.zeros((), self.array.dtype), config), self.dims)

    def window(self, name: str, start: int, size: int, step: int = 1) -> Named:
        """`size` elements of one axis from `start` on; those outside the array are zero."""
        span = (size - 1) * step + 1
        low, high = max(0, -start), max(0, start + span - self.size(name))
        padded = self.pad(name, low, high)
        start += low
        axis = self.dims.index(name)
        if start == 0 and span == padded.size(name) and step == 1:
            return padded
        return Named(lax.slice_in_dim(padded.array, start, start + span, step, axis), self.dims)

    def split(self, name: str, inner: str, size: int) -> Named:
        """The axis `name` as (name, inner), `inner` having `size` elements and varying fastest."""
        axis, shape = self.dims.index(name), self.array.shape
        shape = (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])
        return Named(lax.reshape(self.array, shape), (*self.dims[: axis + 1], inner, *self.dims[axis + 1 :]))

    def merge(self, name: str, inner: str) -> Named:
        """The inverse of `split`."""
        rest = [d for d in self.dims if d != inner]
        rest.insert(rest.index(name) + 1, inner)
        groups = [[d] if d != name else [name, inner] for d in rest if d != inner]
        return Named(self.arrange(*groups), tuple(d for d in rest if d != inner))

    def take(self, name: str, index: int) -> Named:
        """One element of an axis, which is dropped."""
        axis = self.dims.index(name)
        rest = tuple(d for d in self.dims if d != name)
        return Named(lax.index_in_dim(self.array, index, axis, keepdims=False), rest)

    @staticmethod
    def stack(parts: Sequence[Named], name: str) -> Named:
        """Arrays of the same dims along a new first axis."""
        arrays = [lax.expand_dims(part.array, (0,)) for part in parts]
        return Named(lax.concatenate(arrays, 0) if len(arrays) > 1 else arrays[0], (name, *parts[0].dims))

    def flip(self, name: str) -> Named:
        """Reverses one axis."""
        return Named(lax.rev(self.array, (self.dims.index(name),)), self.dims)

    def transpose(self, dims: Sequence[str]) -> Named:
        """Axes in another order."""
        if tuple(dims) == self.dims:
            return self
        return Named(lax.transpose(self.array, [self.dims.index(d) for d in dims]), tuple(dims))

    def arrange(self, *groups: Iterable[str]) -> jax.Array:
        """The array with one axis for each group of names, in the order given; an empty group has length 1."""
        wanted = [tuple(g) for g in groups]
        moved = self.transpose([d for g in wanted for d in g])
        shape = [prod(self.size(d) for d in g) for g in wanted]
        return moved.array if list(moved.array.shape) == shape else lax.reshape(moved.array, shape)


def unmerge(array: jax.Array, groups: Sequence[Sequence[str]], sizes: dict[str, int]) -> Named:
    """The inverse of `Named.arrange`: `array` has one axis for each group, which `sizes` takes apart again."""
    dims = tuple(d for g in groups for d in g)
    shape = tuple(sizes[d] for d in dims)
    return Named(array if array.shape == shape else lax.reshape(array, shape), dims)
