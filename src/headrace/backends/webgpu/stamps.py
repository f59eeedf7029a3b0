"""Device time of each dispatch, by timestamp queries; where the device has none, by waiting for each one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...plan import Plan
from ..spans import DEVICE, Span
from .device import Device

MOST_QUERIES = 4096  # WebGPU's limit for one query set


class Stamps:
    """The queries of one plan's run. Every dispatch is a pass of its own, with a stamp at its beginning and its end."""

    def __init__(self, device: Device, plan: Plan) -> None:
        import wgpu

        self._device, self._plan = device, plan
        self._sets: list[tuple[Any, Any, int]] = []
        self.submitted = self.done = 0  # perf_counter_ns before the submit, and when the device had finished
        usage, count = wgpu.BufferUsage, 2 * len(plan.dispatches)
        for start in range(0, count, MOST_QUERIES):
            n = min(MOST_QUERIES, count - start)
            queries = device.handle.create_query_set(type="timestamp", count=n)
            buffer = device.handle.create_buffer(size=8 * n, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
            self._sets.append((queries, buffer, n))

    def passes(self, encoder: Any) -> Iterator[Any]:
        """A compute pass for each dispatch, ended when the next one is asked for."""
        for i in range(len(self._plan.dispatches)):
            queries, at = self._sets[2 * i // MOST_QUERIES][0], 2 * i % MOST_QUERIES
            writes = {
                "query_set": queries,
                "beginning_of_pass_write_index": at,
                "end_of_pass_write_index": at + 1,
            }
            work = encoder.begin_compute_pass(timestamp_writes=writes)
            yield work
            work.end()

    def resolve(self, encoder: Any) -> None:
        """Record the copy of the stamps to buffers that can be read."""
        for queries, buffer, n in self._sets:
            encoder.resolve_query_set(queries, 0, n, buffer, 0)

    def spans(self) -> Sequence[Span]:
        """A span for each dispatch, on the host's clock as well as it can be told."""
        read = self._device.handle.queue.read_buffer
        parts = [np.frombuffer(read(buffer), np.uint64) for _, buffer, _ in self._sets]
        if not parts:
            return []
        ns = np.concatenate(parts).astype(np.int64).reshape(-1, 2)
        ns = (ns - ns[0, 0]) * _period(self._device)
        ns[:, 1] = np.maximum(ns[:, 1], ns[:, 0])
        return spans_of(self._plan, ns + aligned(ns, self.submitted, self.done))


def aligned(ns: np.ndarray, submitted: int, done: int) -> int:
    """What is added to device times [dispatches, 2] so that they begin after `submitted` and end before `done`: the two
    clocks have no common zero, so the work is put at the end of what time there was, when the host saw it finished."""
    return max(submitted - int(ns.min()), done - int(ns.max()))


def spans_of(plan: Plan, ns: np.ndarray) -> list[Span]:
    """Kernel spans from the times [dispatches, 2] of their beginnings and ends, host clock."""
    return [
        Span("kernel", DEVICE, plan.kernels[d.kernel].name, int(a), int(b), d.nodes, (), d.bytes, d.flops, d.kernel)
        for d, (a, b) in zip(plan.dispatches, ns, strict=True)
    ]


def _period(device: Device) -> float:
    """Nanoseconds of one tick. wgpu-native gives ticks of the driver, where WebGPU promises nanoseconds."""
    from wgpu.backends.wgpu_native._ffi import lib

    queue = device.handle.queue
    try:
        return float(lib.wgpuQueueGetTimestampPeriod(queue._internal)) or 1.0
    except AttributeError:  # another version of wgpu-py
        return 1.0


class Waits:
    """Where there are no timestamps: every dispatch is submitted alone and waited for, so its time holds the way there
    and back too."""

    def __init__(self, device: Device, plan: Plan) -> None:
        self._device, self._plan = device, plan
        self._times: list[tuple[int, int]] = []

    def play(self, dispatch: Any) -> None:
        """Run each dispatch by `dispatch(pass, index)`."""
        handle = self._device.handle
        for i in range(len(self._plan.dispatches)):
            encoder = handle.create_command_encoder()
            work = encoder.begin_compute_pass()
            dispatch(work, i)
            work.end()
            commands = encoder.finish()
            start = time.perf_counter_ns()
            handle.queue.submit([commands])
            self._device.drain()
            self._times.append((start, time.perf_counter_ns()))

    def spans(self) -> Sequence[Span]:
        """A span for each dispatch."""
        return spans_of(self._plan, np.array(self._times, np.int64).reshape(-1, 2))
