"""Random arguments of conv_general_dilated, all that jax.lax accepts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Arguments:
    """Shapes and keyword arguments of one convolution."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    keywords: dict[str, Any]


STRIDES = st.sampled_from([1, 1, 1, 2, 3, 4, 6])


@st.composite
def arguments(draw: Any, most_axes: int = 2) -> Arguments:
    """One to `most_axes` spatial axes; every stride, dilation, padding, group and layout."""
    axes = draw(st.sampled_from([1, 1, 1, 2, 2, 3][: 3 * most_axes - 1]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    by_batch = draw(st.booleans())
    batch, features_in, features_out = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    sizes, kernel = [], []
    keywords: dict[str, Any] = {"window_strides": [], "padding": [], "lhs_dilation": [], "rhs_dilation": []}
    for _ in range(axes):
        size, taps = draw(st.integers(1, 5)), draw(st.integers(1, 4))
        stride, rhs_dilation, lhs_dilation = draw(STRIDES), draw(STRIDES), draw(STRIDES)
        dilated, reach = (size - 1) * lhs_dilation + 1, (taps - 1) * rhs_dilation + 1
        low = draw(st.integers(-min(2, dilated - 1), reach))
        high = draw(st.integers(max(-2, -dilated - low), reach))
        high = max(high, reach - dilated - low)  # at least one output
        sizes.append(size)
        kernel.append(taps)
        for name, value in zip(keywords, (stride, (low, high), lhs_dilation, rhs_dilation), strict=True):
            keywords[name].append(value)
    keywords = {name: tuple(values) for name, values in keywords.items()}
    letters = "HWD"[:axes]
    layouts = [draw(st.sampled_from([*permutations(c + letters)])) for c in ("NC", "OI", "NC")]
    keywords["dimension_numbers"] = tuple("".join(p) for p in layouts)
    keywords["batch_group_count" if by_batch else "feature_group_count"] = groups
    lengths = dict(zip(letters, sizes, strict=True)) | {
        "N": batch * (groups if by_batch else 1),
        "C": features_in * (1 if by_batch else groups),
    }
    taps_of = dict(zip(letters, kernel, strict=True)) | {"O": features_out * groups, "I": features_in}
    return Arguments(
        tuple(lengths[c] for c in keywords["dimension_numbers"][0]),
        tuple(taps_of[c] for c in keywords["dimension_numbers"][1]),
        keywords,
    )
