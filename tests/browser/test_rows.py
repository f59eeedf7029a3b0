"""Rows of the conformance list in Chromium: every kernel compiled by Tint under default limits, every value checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from . import rows

sys.path.insert(0, str(Path(__file__).parents[1] / "webgpu"))
import node_cases

SAMPLED, AT_ONCE = 330, 25

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def sample(names: list[str], count: int) -> list[str]:
    """Spread evenly over the list, which is sorted by name and so by operator."""
    return [names[i * len(names) // count] for i in range(count)] if len(names) > count else names


def test_sampled_rows(page, site):
    root, url = site
    cases, prepared = node_cases.cases(), []
    for name in sample([n for n in node_cases.allowed() if n in cases], SAMPLED + 70):
        row = rows.write(cases[name], root / "rows" / name, f"{url}/rows/{name}/")
        if row is not None:
            prepared.append((name, row))
    failed = {}
    for start in range(0, len(prepared), AT_ONCE):
        part = prepared[start : start + AT_ONCE]
        for (name, _), result in zip(part, page.evaluate(rows.JS, [row for _, row in part]), strict=True):
            try:
                assert "error" not in result, result["error"]
                for got, want in zip(rows.arrays_of(result), cases[name].data_sets[0][1], strict=True):
                    node_cases.agree(got, want, name)
            except AssertionError as error:
                failed[name] = str(error)[:300]
    print(f"{len(prepared) - len(failed)} of {len(prepared)} rows pass in Chromium")
    assert not failed, failed
    assert len(prepared) >= 300
