"""ONNX's own node cases on the device: what passed once goes on passing.

`python tests/webgpu/node_cases.py --extend` adds to the list what passes now.
"""

from __future__ import annotations

import pytest
from node_cases import allowed, cases, verdict

PARTS = 16  # the first is in the fast tests
LEAST = 1500

pytestmark = pytest.mark.webgpu


def test_the_list_only_grows():
    names = allowed()
    assert len(names) >= LEAST
    assert names == sorted(set(names))


@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, PARTS))])
def test_cases(part):
    known = cases()  # another onnx release may lack some
    chosen = [n for n in allowed()[part::PARTS] if n in known]
    assert len(chosen) > LEAST // PARTS // 2
    failed = {n: said for n in chosen if (said := verdict(known[n])) != "pass"}
    assert not failed, failed
