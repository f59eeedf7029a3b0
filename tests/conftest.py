"""Every kernel that a test compiles is remembered, so that the last test can give them all to the other compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from tests.browser.chromium import browser, page, site  # one browser for all folders: Playwright allows no second
from tests.browser.playing import play

__all__ = ["browser", "page", "play", "site"]

KERNELS: dict[str, tuple[str, ...]] = {}  # WGSL -> the features that it requires


@pytest.fixture(scope="session", autouse=True)
def _remember_kernels() -> Iterator[None]:
    from headrace.backends.webgpu import player

    original = player.pipeline

    def pipeline(device: Any, kernel: Any) -> Any:
        KERNELS.setdefault(kernel.wgsl, kernel.requires)
        return original(device, kernel)

    player.pipeline = pipeline
    yield
    player.pipeline = original


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "tests/tint/" in str(item.path))  # stable: all others keep their order


@pytest.fixture(scope="session")
def kernels() -> dict[str, tuple[str, ...]]:
    """All kernels of this run so far, by their text."""
    return KERNELS


@pytest.fixture(scope="module")
def on_device():
    """Runs a plan with feeds on the device, scratch buffers full of NaN."""
    from headrace.backends.webgpu.device import open_device, release
    from headrace.backends.webgpu.player import Pool, Prepared
    from headrace.dtypes import to_storage

    device = open_device()

    def call(plan, feeds):
        pool = Pool(device)
        prepared = Prepared(plan, pool)
        for buffer in pool.scratch:
            device.handle.queue.write_buffer(buffer, 0, np.full(buffer.size, 0xFF, np.uint8))
        stored = {u.name: to_storage(feeds[u.name], u.storage) for u in plan.uploads}
        made = prepared.finish(prepared.run(stored))
        types = {r.name: onnx.helper.tensor_dtype_to_np_dtype(r.dtype) for r in plan.readbacks}
        return {n: a.astype(types[n]) for n, a in made.items()} | dict(plan.known)

    yield call
    release(device)
