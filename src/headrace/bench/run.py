"""headrace and its peers on one model: time, GFLOP/s, speed-up, error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..feeds import NodeArg
from ..model import load
from ..model.shapes import bind_dims, infer_shapes
from ..rules.flops import node_costs
from ..session import InferenceSession
from .cases import CASES, Case
from .peers import installed, runner
from .timing import interleaved, median


@dataclass(frozen=True, slots=True)
class Result:
    """One model: median milliseconds by contender; `spread` holds the 10th and 90th percentile of each."""

    name: str
    device: str
    flops: float  # of the model as it is written, dense
    ms: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]]
    errors: Mapping[str, float]  # largest deviation of headrace from each peer, over the peer's largest value
    notes: Sequence[str] = field(default=())

    def speedup(self, peer: str) -> float:
        """How many times faster than `peer` headrace is."""
        return self.ms[peer] / self.ms["headrace"]


def bench_cases(
    device: str = "cpu", against: list[str] | None = None, seconds: float = 2.0, threads: int | None = None
) -> Iterator[Result]:
    """The reported cases, one after the other."""
    for case in CASES:
        yield _bench_case(case, device, against, seconds, threads)


def _bench_case(case: Case, device: str, against: list[str] | None, seconds: float, threads: int | None) -> Result:
    source = case.build().SerializeToString()
    feeds = {n: _normal(s) for n, s in case.feeds.items()}
    extra: dict[str, Callable[[], object]] = {}
    if case.gemm is not None:
        rows, inner, columns = case.gemm
        a, b = _normal((rows, inner)), _normal((inner, columns))
        extra["numpy GEMM"] = lambda: a @ b
    return bench_model(source, case.name, feeds, device, against, seconds, threads, extra=extra)


def bench_model(
    model: str | bytes,
    name: str,
    feeds: Mapping[str, np.ndarray] | None = None,
    device: str = "cpu",
    against: list[str] | None = None,
    seconds: float = 2.0,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    extra: Mapping[str, Callable[[], object]] | None = None,
) -> Result:
    """Time one model on `device` beside the peers, in turns.

    Raises:
        HeadraceError: as InferenceSession and its `run`.
    """
    from ..backends.cpu.ort_session import default_threads

    with InferenceSession(model, device, dims=dims, threads=threads) as session:
        given = {**random_feeds(session.get_inputs()), **(feeds or {})}
        ours = session.run(None, given)
        contenders: dict[str, Callable[[], object]] = {"headrace": lambda: session.run(None, given)}
        errors: dict[str, float] = {}
        for peer in installed(against):
            run = runner(peer, model, given, threads or default_threads())
            if run is not None:
                contenders[peer] = run
                errors[peer] = max(map(relative_error, ours, run()), default=0.0)
        times = interleaved({**contenders, **(extra or {})}, seconds)
        notes = [note.text for note in session.notes if not note.refused]
        used = session.device
    return Result(
        name,
        used,
        _dense_flops(model, given, dims),
        {n: median(t) for n, t in times.items()},
        {n: (float(np.percentile(t, 10)), float(np.percentile(t, 90))) for n, t in times.items()},
        errors,
        notes,
    )


def _dense_flops(model: str | bytes, feeds: Mapping[str, np.ndarray], dims: Mapping[str, int] | None) -> float:
    loaded = load(model)
    if dims:
        loaded = bind_dims(loaded, dims)
    shapes = infer_shapes(loaded, {name: array.shape for name, array in feeds.items()})
    return sum(cost.flops for cost in node_costs(loaded, shapes))


def relative_error(got: Any, want: Any) -> float:
    """Largest deviation over the largest wanted value; infinite where shapes, strings or lengths of lists differ."""
    if isinstance(want, list):
        same = isinstance(got, list) and len(got) == len(want)
        return max(map(relative_error, got, want), default=0.0) if same else float("inf")
    if got is None or want is None:
        return 0.0 if got is want else float("inf")
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind in "OUS" or got.dtype.kind in "OUS":
        return 0.0 if np.array_equal(got.astype(object), want.astype(object)) else float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))


def random_feeds(
    inputs: Sequence[NodeArg], dims: Mapping[str, int] | None = None, seed: int = 0
) -> dict[str, np.ndarray]:
    """Random inputs, never zeros: normal floats, small positive integers, mixed booleans. Symbolic dimensions are 1."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for arg in inputs:
        shape = tuple(d if isinstance(d, int) else (dims or {}).get(str(d), 1) for d in arg.shape)
        kind = arg.dtype.kind if arg.dtype is not None else "f"
        if kind in "iu":
            feeds[arg.name] = rng.integers(1, 10, shape).astype(arg.dtype)
        elif kind == "b":
            feeds[arg.name] = rng.random(shape) < 0.7
        elif kind == "O":
            feeds[arg.name] = np.full(shape, "text", object)
        else:
            feeds[arg.name] = _normal(shape, seed).astype(arg.dtype)
    return feeds


def _normal(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)
