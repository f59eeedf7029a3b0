"""Every kernel that the tests before this one compiled, given to Tint: what only naga accepts fails here."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import headrace
from tests.models import model_of, normal

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AT_ONCE = 100
COMPILE = """async (kernels) => {
  const adapter = await navigator.gpu.requestAdapter();
  const device = globalThis.tint ??= await adapter.requestDevice();
  const failed = [];
  for (const code of kernels) {
    device.pushErrorScope('validation');
    const info = await device.createShaderModule({ code }).getCompilationInfo();
    await device.popErrorScope();
    const errors = info.messages.filter((m) => m.type === 'error');
    if (errors.length) failed.push(errors.map((m) => `${m.lineNum}: ${m.message}`).join('\\n') + '\\n' + code);
  }
  return failed;
}"""


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_tint_accepts_every_kernel(page, kernels):
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (4, 8)}, ["y"], {"w": normal((8, 8))})
    with headrace.InferenceSession(model, device="webgpu") as session:  # something to compile when run alone
        session.run(None, {"x": np.ones((4, 8), np.float32)})
    plain = [text for text, requires in kernels.items() if not requires]  # Chromium's adapter here has no shader-f16
    failed = []
    for start in range(0, len(plain), AT_ONCE):
        failed += page.evaluate(COMPILE, plain[start : start + AT_ONCE])
    print(f"Tint accepts {len(plain) - len(failed)} of {len(plain)} kernels")
    assert plain and not failed, failed[0]


def test_tint_says_what_it_refuses(page):
    wrong = "@compute @workgroup_size(1) fn main() { let x = bitcast<f32>(0xff800000u); }"
    assert len(page.evaluate(COMPILE, [wrong])) == 1
