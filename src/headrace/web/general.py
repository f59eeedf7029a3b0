"""The plans of a bundle for all sizes: for which sizes they are made, and which sizes they are tried with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..dtypes import Array
from ..errors import DeviceError, HeadraceError, InputError, UnsupportedOpError
from ..kernels.size import Trace
from ..ops import Refuse
from ..plan import Graph, Plan, Spec, verify_plan
from ..plan.general import Form, General, general_plan
from ..target import Target

MOST_PLANS = 3  # of one kind of adapter
MOST_GUESSES = 12  # that follow from one
LAST_DECISIONS = 3  # of a lowering that failed, of which one may be why
IMAGE, SIGNAL, TOKENS = 224, 400, 48  # what a dimension is taken to be, by its place
Dims = Mapping[str, int]
Concrete = Callable[[Mapping[str, Spec | Array], Target], Plan]


def general_plans(
    graph: Graph, forms: Mapping[str, Form], target: Target, stored: dict[str, Array], concrete: Concrete
) -> list[General]:
    """Plans that together admit the sizes a model is likely to meet, the most general first.

    Raises:
        UnsupportedOpError: nodes that would have to run on the host.
        InputError: a model whose sizes do not fit any guess: input_shapes are needed.
    """
    plans = [_first(graph, forms, target, stored)]
    for dims in _probes(plans[0].hints):
        if len(plans) < MOST_PLANS and not any(p.admits(dims) for p in plans):
            more = _planned(graph, forms, dims, target, stored)
            if isinstance(more, General):
                plans.append(more)
    for plan in plans:
        _check(plan, forms, target, concrete)
    return plans


def _first(graph: Graph, forms: Mapping[str, Form], target: Target, stored: dict[str, Array]) -> General:
    errors: list[Exception] = []
    for guess in _guesses(forms):
        waiting, seen = [guess], [guess]
        while waiting and len(seen) <= MOST_GUESSES:
            hints, traces = waiting.pop(), list[Trace]()
            found = _planned(graph, forms, hints, target, stored, traces)
            if isinstance(found, General):
                return found
            errors.append(found)
            others = [dims for dims in _undone(traces, hints) if dims not in seen]
            waiting += reversed(others)
            seen += others
    error = errors[0]
    if isinstance(error, UnsupportedOpError):
        raise error
    raise InputError(
        f"No plan for all sizes could be made: give the sizes that are needed as input_shapes. The reason: {error}"
    ) from error


def _undone(traces: Sequence[Trace], hints: Dims) -> list[dict[str, int]]:
    """Sizes at which one of the last decisions before a failure is another: a mask as long as past and present
    together, a signal as long as a window."""
    last = traces[-1].decisions[:LAST_DECISIONS] if traces else ()
    return [dims for guard in last for dims in guard.broken_by(hints)[:2]]


def _planned(
    graph: Graph,
    forms: Mapping[str, Form],
    hints: Dims,
    target: Target,
    stored: dict[str, Array],
    traces: list[Trace] | None = None,
) -> General | Exception:
    """A plan, or why these sizes have none."""
    try:
        found, whole = general_plan(graph, forms, hints, target, stored, traces)
        if whole.refused:
            return UnsupportedOpError(
                (*whole.refused, *whole.hopeless), "A page has no other runtime that could run them."
            )
        verify_plan(found.at(hints), target)
    except (HeadraceError, Refuse, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        return error
    return found


def _guesses(forms: Mapping[str, Form]) -> Iterator[dict[str, int]]:
    """Sizes to make choices for: different ones first, so that nothing comes to depend on two being equal."""
    usual: dict[str, int] = {}
    for shape, _ in forms.values():
        for axis, d in enumerate(shape):
            if isinstance(d, str):
                usual.setdefault(d, _usual(axis, len(shape)))
    distinct, taken = dict(usual), set[int]()
    for d, n in usual.items():
        while n > 1 and distinct[d] in taken:
            distinct[d] += 32 if n > TOKENS else 8
        taken.add(distinct[d])
    yield distinct
    if distinct != usual:
        yield usual
    yield dict.fromkeys(usual, 32)


def _usual(axis: int, rank: int) -> int:
    if axis == 0 and rank > 1:
        return 1
    return IMAGE if rank == 4 and axis > 1 else SIGNAL if rank == 3 and axis == 2 else TOKENS


def _probes(hints: Dims) -> Iterator[dict[str, int]]:
    """Other sizes: odd, small, large, and a batch of two."""
    for up, down, more in ((3, 4, -1), (2, 1, 3), (1, 4, 1)):
        yield {d: n if n == 1 else n * up // down + more for d, n in hints.items()}
    yield {d: 2 if n == 1 else n for d, n in hints.items()}


def _check(general: General, forms: Mapping[str, Form], target: Target, concrete: Concrete) -> None:
    """Compare with the plan that is made for one other size alone. Raises DeviceError where they differ."""
    dims = next((d for d in [*_probes(general.hints), dict(general.hints)] if general.admits(d)), None)
    if dims is None:
        return
    specs: dict[str, Spec | Array] = {
        name: Spec(tuple(dims[d] if isinstance(d, str) else d for d in shape), dtype)
        for name, (shape, dtype) in forms.items()
    }
    try:
        want = concrete(specs, target)
    except HeadraceError:  # the model has no answer at these sizes, or it does not fit the device
        return
    got = general.at(dims)
    if _outside(got) != _outside(want):
        raise DeviceError(
            f"The plan for all sizes is wrong at {dict(dims)}; this is a bug: give input_shapes meanwhile."
        )


def _outside(plan: Plan) -> Sequence[object]:
    """What a caller sees of a plan."""
    outputs = sorted((r.name, r.storage, r.dtype, r.shape, r.size) for r in plan.readbacks)
    return outputs, sorted((u.name, u.storage, u.shape) for u in plan.uploads)
