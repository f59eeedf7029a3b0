"""The script for a machine with a GPU runs through on this one, with small sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.webgpu, pytest.mark.slow]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_session.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_every_section_gives_figures(tmp_path):
    output = tmp_path / "results.json"
    done = run("--small", "-o", str(output))
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert {"adapter", "peaks", "model DETR", "variants"} <= set(found)
    for name, part in found.items():
        assert "failed" not in part and "skipped" not in part, (name, part)
    assert found["model DETR"]["dispatches"] > 150 and found["model DETR"]["submits"] == 1
    assert all(row["registers"] > 0 and row["workgroup memory"] > 0 for row in found["variants"])
    assert found["adapter"]["name"] in done.stdout


def test_what_does_not_fit_into_the_time_is_skipped_and_said():
    done = run("--small", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    assert "no time left" in done.stdout
