"""Shared by the tests of headrace.jax: tolerances, comparison, random arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="headrace.jax needs the extra jax")
jnp = jax.numpy

# Largest error relative to the largest value. Sums here have at most a few hundred terms.
TOLERANCES = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 2e-5,
    "float64": 1e-12,
    "complex64": 2e-5,
    "complex128": 1e-12,
}


def assert_close(got: Any, want: Any) -> None:
    """Raises unless both trees have the same shapes and dtypes and agree within TOLERANCES."""
    got_leaves, want_leaves = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got_leaves) == len(want_leaves)
    for g, w in zip(got_leaves, want_leaves, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if not g.size:
            continue
        wide = np.complex128 if jnp.iscomplexobj(w) else np.float64
        a, b = np.asarray(g).astype(wide), np.asarray(w).astype(wide)
        assert np.isfinite(a).all()
        error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
        limit = TOLERANCES.get(str(w.dtype), 0.0)
        assert error <= limit, f"error {error:.2g} over {limit:.2g} in {w.dtype}{list(w.shape)}"


def random_array(shape: tuple[int, ...], dtype: Any = "float32", seed: int = 0) -> Any:
    """Normal values, small integers for an integer dtype."""
    rng = np.random.default_rng(seed)
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(rng.integers(-5, 6, shape), dtype)
    values = rng.standard_normal(shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return jnp.asarray(values + 1j * rng.standard_normal(shape), dtype)
    return jnp.asarray(values, dtype)
