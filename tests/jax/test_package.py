"""What the package exports, what it imports, what explain() says and which form is chosen."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.scipy import signal as reference

import headrace.jax as hr
from headrace.jax.cost import COSTS, pick
from headrace.jax.forms import FORMS
from headrace.jax.geometry import Axis, Problem


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_public_names() -> None:
    assert hr.__all__ == ["Explanation", "conv_general_dilated", "conv_transpose", "explain", "istft", "patch", "stft"]


@pytest.mark.slow
def test_importing_headrace_does_not_import_jax() -> None:
    assert python("import sys, headrace; print('jax' in sys.modules)") == "False"


@pytest.mark.slow
def test_without_jax_the_error_says_what_to_install() -> None:
    code = """
        import sys
        sys.modules["jax"] = None
        try:
            import headrace.jax
        except ImportError as error:
            print(error)
    """
    assert "pip install headrace[jax]" in python(code)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (hr.conv_general_dilated, lax.conv_general_dilated),
        (hr.conv_transpose, lax.conv_transpose),
        (hr.stft, reference.stft),
        (hr.istft, reference.istft),
    ],
)
def test_signatures_are_those_of_jax(ours: object, theirs: object) -> None:
    mine, other = (
        [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]  # type: ignore[arg-type]
        for f in (ours, theirs)
    )
    assert mine == other


def test_explain_says_which_and_why() -> None:
    x, w = jax.ShapeDtypeStruct((16, 129, 400), jnp.float32), jax.ShapeDtypeStruct((129, 1, 256), jnp.float32)
    said = hr.explain(x, w, (1,), ((255, 255),), (64,), dimension_numbers=("NCT", "IOT", "NCT"), platform="cpu")
    assert said.forward.form != "lax"
    assert said.rhs_gradient.form != "lax"
    text = str(said)
    for part in (
        "forward:",
        "lhs gradient:",
        "rhs gradient:",
        "polyphase, stride 64",
        "times as fast as jax.lax",
        "us",
    ):
        assert part in text
    with pytest.raises(ValueError, match="feature"):
        hr.explain(x, jnp.zeros((1, 2, 3)), (1,), ((1, 1),))


def test_every_form_has_costs() -> None:
    assert set(COSTS) == {"lax", *FORMS}


PLAIN = Problem(
    ("n0", "c0", "s0"), ("o0", "c0", "s0"), ("n0", "o0", "s0"), (Axis(100, 3, 100, padding=1),),
    (("n0", 4), ("c0", 64), ("o0", 64)),
)  # fmt: skip


def test_plain_convolutions_stay_with_lax_and_dilated_ones_do_not() -> None:
    assert pick(PLAIN, "cpu", jnp.float32).form == "lax"
    assert pick(PLAIN, "gpu", jnp.float32).form == "lax"
    dilated = replace(PLAIN, axes=(Axis(100, 8, 399, lhs_dilation=4, padding=7),))
    for platform in ("cpu", "gpu", "tpu"):
        assert pick(dilated, platform, jnp.float32).form != "lax"
        assert pick(dilated.transposed_rhs(), platform, jnp.float32).form != "lax"


def test_depthwise_is_elementwise() -> None:
    sizes = (("n0", 1), ("g0", 512), ("c0", 1), ("o0", 1))
    dims = ("n0", "g0", "c0", "s0"), ("g0", "o0", "c0", "s0"), ("n0", "g0", "o0", "s0")
    problem = Problem(*dims, (Axis(2000, 3, 4000, lhs_dilation=2, padding=1),), sizes)
    assert pick(problem, "cpu", jnp.float32).form == "elementwise"
    assert pick(problem.transposed_rhs(), "cpu", jnp.float32).form == "elementwise_inner"


def test_gradients_of_a_problem_are_problems_and_turn_back() -> None:
    problem = replace(PLAIN, axes=(Axis(10, 4, 9, 2, 3, 5, -1),))
    assert problem.transposed_lhs().transposed_lhs() == problem
    assert problem.transposed_rhs().transposed_rhs() == problem
