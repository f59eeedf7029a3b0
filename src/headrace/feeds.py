"""What a session is fed: checked against the model, and initializers that are fed as inputs."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from .backends.base import Executable, is_device_array
from .errors import InputError
from .model import Model
from .rules.driver import label

SPECIALISED = 4  # different values of fed initializers that get a model of their own


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model, as onnxruntime describes it: `shape` holds ints, names, or None; `type` is like
    "tensor(float)"; `dtype` is numpy's, or None where the value is no tensor."""

    name: str
    shape: list[int | str | None]
    type: str
    dtype: Any = None


ORT_NAMES = {
    "FLOAT": "float", "DOUBLE": "double", "STRING": "string", "BOOL": "bool", "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    **{f"{u}INT{b}": f"{u}int{b}".lower() for u in ("", "U") for b in (4, 8, 16, 32, 64)},
}  # fmt: skip


def node_arg(value: ir.Value) -> NodeArg:
    """Describe an input or output of a graph."""
    shape = [] if value.shape is None else [d if isinstance(d, int) else d.value for d in value.shape]
    if isinstance(value.type, ir.TensorType):
        name = value.type.dtype.name
        dtype = np.dtype(object) if name == "STRING" else value.type.dtype.numpy()
        return NodeArg(str(value.name), shape, f"tensor({ORT_NAMES.get(name, name.lower())})", dtype)
    kind = "seq" if isinstance(value.type, ir.SequenceType) else "optional"
    element = getattr(getattr(value.type, "elem_type", None), "dtype", None) if value.type else None
    inner = ORT_NAMES.get(element.name, "") if isinstance(element, ir.DataType) else ""
    return NodeArg(str(value.name), shape, f"{kind}(tensor({inner}))")


class Signature:
    """The inputs of a model, and the check of what is fed to them."""

    def __init__(self, model: Model) -> None:
        self.inputs = {str(v.name): node_arg(v) for v in model.graph.inputs}
        self.constants = {name: node_arg(v) for name, v in model.constants_fed.items()}
        self._ranked = {str(v.name): v.shape is not None for v in model.graph.inputs}
        self._seen: set[tuple[Any, ...]] = set()

    def checked(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The feeds as arrays, and apart from them those that replace a constant of the model.

        Raises:
            InputError: a name that is unknown or missing, or a wrong dtype, rank or dimension.
        """
        if not isinstance(feeds, Mapping):
            raise InputError(f"Inputs are fed as a dict of arrays by name, not {type(feeds).__name__}.")
        arrays = {name: self._array(name, value) for name, value in feeds.items()}
        key = tuple((n, getattr(a, "shape", None), getattr(a, "dtype", None)) for n, a in arrays.items())
        if key not in self._seen:
            self._check(arrays)
            if len(self._seen) < 4096:
                self._seen.add(key)
        if not self.constants:
            return arrays, {}
        constants = {n: arrays.pop(n) for n in list(arrays) if n in self.constants}
        return arrays, {n: a.numpy() if is_device_array(a) else a for n, a in constants.items()}

    def _array(self, name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray) or is_device_array(value):
            return value
        arg = self.inputs.get(name) or self.constants.get(name)
        if arg is None or arg.dtype is None:
            return value
        try:
            array = np.asarray(value)
            if hasattr(value, "dtype") or array.dtype == arg.dtype:
                return array
            if arg.dtype.kind in "iub" and array.dtype.kind not in "iub" and array.size:
                raise InputError(f"Input {_describe(arg)} holds integers or truth values: {array.dtype} would be cut.")
            return np.asarray(value, dtype=arg.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"Input {name!r} is no array that numpy understands: {error}") from error

    def _check(self, arrays: Mapping[str, Any]) -> None:
        known = {**self.inputs, **self.constants}
        unknown = [n for n in arrays if n not in known]
        if unknown:
            raise InputError(
                f"No such input: {', '.join(map(repr, unknown))}. The model has: {', '.join(known) or 'none'}."
            )
        missing = [n for n in self.inputs if n not in arrays and not self.inputs[n].type.startswith("optional")]
        if missing:
            raise InputError("Missing input: " + "; ".join(_describe(self.inputs[n]) for n in missing) + ".")
        for name, array in arrays.items():
            self._check_one(known[name], array, self._ranked.get(name, True))

    def _check_one(self, arg: NodeArg, array: Any, ranked: bool) -> None:
        if arg.dtype is None or not hasattr(array, "shape"):
            return
        given = f"given {array.dtype} {list(array.shape)}"
        if arg.dtype == np.dtype(object):
            if array.dtype.kind not in "OUST":
                raise InputError(f"Input {_describe(arg)} must hold strings, {given}.")
        elif array.dtype != arg.dtype:
            raise InputError(f"Input {_describe(arg)} has the wrong dtype: {given}.")
        if not ranked:
            return
        if len(array.shape) != len(arg.shape):
            raise InputError(f"Input {_describe(arg)} has the wrong rank: {given}.")
        if any(isinstance(want, int) and want != got for want, got in zip(arg.shape, array.shape, strict=True)):
            raise InputError(f"Input {_describe(arg)} has the wrong shape: {given}.")


def check_host_nodes(model: Model, names: Iterable[Any]) -> None:
    """Raise InputError for a name that is no node's, no `label` of one and no output; it says which come near."""
    known = {label(n) for n in model.graph.all_nodes()}
    known |= {str(v.name) for n in model.graph.all_nodes() for v in n.outputs if v.name}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 3, 0.5)
            hint = f": did you mean {', '.join(map(repr, near))}?" if near else "."
            raise InputError(f"host_nodes: no node is called {name!r}{hint}")


def _describe(arg: NodeArg) -> str:
    shape = ", ".join("?" if d is None else str(d) for d in arg.shape)
    return f"{arg.name!r} ({arg.dtype if arg.dtype is not None else arg.type} [{shape}])"


class FedConstants:
    """Executables for models whose initializers are fed. The first few values each get a model in which they are
    constant, so that they are packed and folded like any weight; after that one model takes them as plain inputs."""

    def __init__(self, model: Model, make: Callable[[Model], Executable]) -> None:
        self._model, self._make = model, make
        self._specialised: list[tuple[dict[str, np.ndarray], Executable]] = []
        self._general: dict[tuple[str, ...], Executable] = {}
        self._lock = threading.Lock()

    def executable_for(self, values: dict[str, np.ndarray]) -> tuple[Executable, dict[str, np.ndarray]]:
        """The executable to run, and what must be fed to it besides the inputs."""
        with self._lock:
            for known, executable in self._specialised:
                if known.keys() == values.keys() and all(_same(known[n], values[n]) for n in known):
                    return executable, {}
            if len(self._specialised) < SPECIALISED:
                kept = {n: a.copy() for n, a in values.items()}
                executable = self._make(self._with_constants(kept))
                self._specialised.append((kept, executable))
                return executable, {}
            names = tuple(sorted(values))
            if names not in self._general:
                self._general[names] = self._make(self._with_inputs(names))
            return self._general[names], values

    def close(self) -> None:
        for executable in (*(e for _, e in self._specialised), *self._general.values()):
            executable.close()
        self._specialised, self._general = [], {}

    def _with_constants(self, values: Mapping[str, np.ndarray]) -> Model:
        model = self._model.clone()
        model.changed = True
        for name, array in values.items():
            model.graph.initializers[name].const_value = ir.tensor(array, name=name)
        return model

    def _with_inputs(self, names: Sequence[str]) -> Model:
        model = self._model.clone()
        model.changed = True
        for name in names:
            value = model.graph.initializers.pop(name)
            value.const_value = None
            model.graph.inputs.append(value)
        return model


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(_bits(a), _bits(b))


def _bits(array: np.ndarray) -> np.ndarray:
    """What tells values apart, NaNs and signed zeros too; a scalar has no other view of its bytes."""
    return array if array.dtype == object else np.ascontiguousarray(array).view(np.uint8)
