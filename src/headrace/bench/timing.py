"""Timing that is fair on a shared machine: contenders take turns, and the median of many turns counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

PAUSE_S = 0.06  # threads of the contender before, still spinning, go to sleep


def interleaved(
    contenders: Mapping[str, Callable[[], object]], seconds: float = 2.0, least: int = 3, most: int = 200
) -> dict[str, list[float]]:
    """Milliseconds of every counted call, by contender.

    Each is called twice unmeasured. Then they take turns, in an order that is drawn anew for each round so that none
    always follows the same other, each turn after a pause and an uncounted call, until `seconds` are spent on each or
    `most` calls are counted, but `least` rounds in any case.
    """
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    per_turn: dict[str, int] = {}
    for name, call in contenders.items():
        call()
        per_turn[name] = max(1, min(20, round(30 / max(_timed(call), 1e-3))))
    order = np.random.default_rng(0)
    turn, end = 0, time.perf_counter() + seconds * len(names)
    while turn < least or (time.perf_counter() < end and max(map(len, times.values())) < most):
        for name in order.permutation(names):
            time.sleep(PAUSE_S)
            contenders[name]()
            times[name] += [_timed(contenders[name]) for _ in range(per_turn[name])]
        turn += 1
    return times


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def median(values: list[float]) -> float:
    return float(np.median(values))
