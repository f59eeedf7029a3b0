"""`patch()`: code that calls jax.lax uses this package's convolutions, for as long as a block runs."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Self, TypeVar

from jax import lax

from .convolution import conv_general_dilated, conv_transpose

F = TypeVar("F", bound=Callable[..., Any])


def _conv(
    lhs: Any, rhs: Any, window_strides: Any, padding: Any, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """`jax.lax.conv`."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def _conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`jax.lax.conv_with_general_padding`."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "conv_general_dilated": conv_general_dilated,
    "conv_transpose": conv_transpose,
    "conv": _conv,
    "conv_with_general_padding": _conv_with_general_padding,
}

_lock = threading.Lock()
_depth = 0
_originals: dict[str, Any] = {}


def _enter() -> None:
    global _depth
    with _lock:
        if _depth == 0:
            _originals.update({name: getattr(lax, name) for name in REPLACEMENTS})
            for name, function in REPLACEMENTS.items():
                setattr(lax, name, function)
        _depth += 1


def _leave() -> None:
    global _depth
    with _lock:
        _depth -= 1
        if _depth == 0:
            for name, function in _originals.items():
                setattr(lax, name, function)
            _originals.clear()


class patch(ContextDecorator):
    """Context manager and decorator: inside, `jax.lax.conv_general_dilated` and its wrappers are this package's.

    The names replaced are conv_general_dilated, conv_transpose, conv and conv_with_general_padding of the module
    `jax.lax`, so layers of flax, equinox and haiku that look them up when they are called use them unchanged. Blocks
    nest; the originals come back when the outermost one ends, however it ends.

    A module attribute is seen by every thread: while any thread is inside a block, all are patched. Entering and
    leaving are safe from several threads, and the last one to leave restores. A function that was jitted and called
    inside keeps its compiled form outside, and one compiled before keeps jax.lax's.

        with headrace.jax.patch():
            y = layer(x)

        @headrace.jax.patch()
        def step(params, batch): ...
    """

    def __init__(self) -> None:
        self._entered = 0

    def _recreate_cm(self) -> patch:
        return type(self)()

    def __call__(self, function: F) -> F:
        """A function that runs inside a block. A generator function is refused: its body runs between its callers'."""
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(
                f"patch() cannot decorate the generator or coroutine {function.__qualname__!r}: "
                "use `with headrace.jax.patch():` around the calls inside it"
            )
        return super().__call__(function)

    def __enter__(self) -> Self:
        _enter()
        self._entered += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._entered == 0:
            raise RuntimeError("patch() left without being entered")
        self._entered -= 1
        _leave()
