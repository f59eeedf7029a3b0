"""Plain data, as JSON gives it, as values of declared types."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints


def decoded(data: Any, kind: Any) -> Any:
    """`data` as a value of the type `kind`: dataclass, tuple, Sequence, Mapping, union, str, bool, int, float, None.

    Raises:
        TypeError: it is none, or a dataclass has other fields.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return data
    if origin in (Union, types.UnionType):
        return _either(data, parts)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        make: Any = kind
        return make(**{name: decoded(value, hints.get(name, _Unknown)) for name, value in data.items()})
    if origin is Mapping and isinstance(data, dict):
        return {name: decoded(value, parts[1]) for name, value in data.items()}
    if origin in (tuple, Sequence) and isinstance(data, list):
        kinds = parts if origin is tuple and parts[-1] is not ... else (parts[0],) * len(data)
        if len(kinds) == len(data):
            return tuple(decoded(value, part) for value, part in zip(data, kinds, strict=True))
    if kind is float and type(data) is int:
        return float(data)
    if kind in (str, bool, int, float, type(None)) and type(data) is kind:
        return data
    raise TypeError(f"{data!r} is no {kind}")


class _Unknown:
    """The type of fields that a dataclass does not have."""


def _either(data: Any, kinds: Sequence[Any]) -> Any:
    for kind in kinds:
        try:
            return decoded(data, kind)
        except TypeError:
            pass
    raise TypeError(f"{data!r} is none of {kinds}")
