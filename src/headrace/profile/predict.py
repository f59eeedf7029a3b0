"""What a plan would take on a GPU that is not here: a roofline for every kernel. An optimistic prediction."""

from __future__ import annotations

import datetime
import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..model import Model, Note
from ..plan import Plan
from ..version import __version__
from .cliffs import find_cliffs
from .measure import fates
from .record import Event, Peaks, Profile


@dataclass(frozen=True, slots=True)
class Machine:
    """A GPU in figures.

    `gflops` are 10^9 float32 operations a second, `gbs` 10^9 bytes a second of its memory, `host_gbs` the same between
    host and device; `launch_us` are microseconds from one dispatch to the next, `wait_us` from the end of the work to
    the host's next step.
    """

    name: str
    gflops: float
    gbs: float
    launch_us: float = 5.0
    wait_us: float = 200.0
    host_gbs: float = 10.0


SLOWEST, MOST = 1e-3, 1e9  # bounds of a description: what is outside is a slip, and no table could show it
LEAST = {"gflops": SLOWEST, "gbs": SLOWEST, "host_gbs": SLOWEST}

MACHINES: Mapping[str, Machine] = {  # peaks from the makers' data sheets; launches and waits are typical of WebGPU
    "m1": Machine("Apple M1, 8 GPU cores", 2600, 68, host_gbs=30),
    "rtx4090": Machine("NVIDIA GeForce RTX 4090", 82600, 1008, launch_us=3, host_gbs=25),
    "igpu": Machine("Intel Iris Xe, 96 execution units", 2200, 51, launch_us=8),
}


def machine(target: str) -> Machine:
    """The machine called `target`, or the one that a JSON or TOML file describes by the fields of Machine.

    Raises:
        InputError: no such machine or file, or a file without figures.
    """
    if target in MACHINES:
        return MACHINES[target]
    path = Path(target)
    if path.suffix not in (".json", ".toml"):
        near = difflib.get_close_matches(target, MACHINES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose {', '.join(MACHINES)}, or a .json or .toml file."
        raise InputError(f"No target is called {target!r}: {hint}")
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise InputError(f"Cannot read the target {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise InputError(f"The target {path} is not {path.suffix[1:].upper()}: {error}") from error
    return _described(path, data)


def _described(path: Path, data: Any) -> Machine:
    names = [f.name for f in fields(Machine)]
    given = data if isinstance(data, dict) else {}
    unknown = [n for n in given if n not in names]
    numbers = {n: v for n, v in given.items() if n != "name"}
    bad = [n for n, v in numbers.items() if type(v) not in (int, float) or not LEAST.get(n, 0) <= v <= MOST]
    missing = [n for n in ("gflops", "gbs") if n not in given]
    if unknown or bad or missing:
        bounds = f"not numbers from {SLOWEST:g} to {MOST:g}, times from 0: {bad}"
        what = f"unknown: {unknown}" if unknown else bounds if bad else f"missing: {missing}"
        raise InputError(f"The target {path} needs gflops and gbs, and may have {', '.join(names)} ({what}).")
    return Machine(str(given.get("name", path.stem)), **{n: float(v) for n, v in numbers.items()})


def predict(model: Model, name: str, plan: Plan, where: Machine, notes: tuple[Note, ...] = ()) -> Profile:
    """The plan as a profile with predicted times: a kernel takes what its operations or its bytes take at the peak, and
    a launch."""
    clock = _Clock(where)
    stage: Plan | None = plan
    while stage is not None:
        clock.play(stage)
        stage = stage.next
    events = tuple(clock.events)
    profile = Profile(
        model=name,
        device="webgpu",
        adapter=where.name,
        software=False,
        headrace=__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine={},
        inputs={u.name: u.shape for u in plan.uploads},
        runs=0,
        ms=clock.now,
        p10_ms=clock.now,
        p90_ms=clock.now,
        plain_ms=clock.now,
        cold_ms={},
        peaks=Peaks(where.gflops, where.gbs),
        events=events,
        cliffs=(),
        notes=tuple({"node": n.node, "text": n.text, "refused": n.refused} for n in notes),
        graph=fates(model, events),
        peak_bytes=plan.peak_bytes,
    )
    return replace(profile, cliffs=tuple(find_cliffs(profile)))


class _Clock:
    """Plays plans against the roofline."""

    def __init__(self, where: Machine) -> None:
        self.where, self.peaks = where, Peaks(where.gflops, where.gbs)
        self.now = 0.0
        self.events: list[Event] = []

    def play(self, plan: Plan) -> None:
        """One plan: what goes up, its dispatches, the wait, what comes back, and its host steps."""
        up = tuple(u.name for u in plan.uploads)
        self._copy("upload", sum(u.size for u in plan.uploads), tensors=up)
        for d in plan.dispatches:
            least = self.peaks.least_ms(d.flops, d.bytes)
            ms = least + self.where.launch_us / 1e3
            work = {"bytes": d.bytes, "flops": float(d.flops), "share": least / ms if ms else None, "nodes": d.nodes}
            name = plan.kernels[d.kernel].name
            self._add("kernel", "device", name, ms, bound=self.peaks.bound(d.flops, d.bytes), **work)
        down = {"tensors": tuple(r.name for r in plan.readbacks), "before_host": bool(plan.host_steps)}
        self._add("wait", "host", "wait", self.where.wait_us / 1e3, **down)
        self._copy("readback", sum(r.size for r in plan.readbacks), **down)
        for h in plan.host_steps:
            made = {"tensors": h.writes, "nodes": (h.node,), "reason": h.reason}
            self._add("host step", "host", h.op_type, self.where.wait_us / 1e3, **made)

    def _copy(self, kind: str, size: int, **more: Any) -> None:
        if size:
            self._add(kind, "copy", kind, size / self.where.host_gbs / 1e6, bytes=size, **more)

    def _add(self, kind: str, track: str, name: str, ms: float, **more: Any) -> None:
        plain = Event(kind, track, name, (), (), self.now, ms, ms, ms, ms, 0, 0.0)
        self.events.append(replace(plain, **more))
        self.now += ms
