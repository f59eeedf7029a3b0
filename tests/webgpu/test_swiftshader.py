"""Rows of the conformance list on SwiftShader, the Vulkan driver that Chromium brings: another compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARIES = [
    Path("/usr/lib/chromium/libvk_swiftshader.so"),
    Path("/usr/lib/chromium-browser/libvk_swiftshader.so"),
    Path("/opt/google/chrome/libvk_swiftshader.so"),
]
SAMPLED = 330
CODE = """
import json, sys
import node_cases, wgpu
names = [n for n in node_cases.allowed() if n in node_cases.cases()]
count = min(int(sys.argv[1]), len(names))
sample = [names[i * len(names) // count] for i in range(count)]
said = {n: node_cases.verdict(node_cases.cases()[n]) for n in sample}
summary = wgpu.gpu.request_adapter_sync(power_preference="high-performance").summary
print(json.dumps({"adapter": summary, "said": said}))
"""

pytestmark = [pytest.mark.webgpu, pytest.mark.slow]


def test_sampled_rows(tmp_path):
    library = next((path for path in LIBRARIES if path.exists()), None)
    assert library is not None, "SwiftShader is missing: apt install chromium"
    driver = {"file_format_version": "1.0.0", "ICD": {"library_path": str(library), "api_version": "1.3.0"}}
    (tmp_path / "icd.json").write_text(json.dumps(driver))
    own = {"VK_ICD_FILENAMES": str(tmp_path / "icd.json"), "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-W", "ignore", "-c", CODE, str(SAMPLED)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | own, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert "SwiftShader" in report["adapter"]
    failed = {name: said for name, said in report["said"].items() if said != "pass"}
    assert not failed, failed
    assert len(report["said"]) >= 300
