"""The Plan: everything a player needs to run a model on a WebGPU device, as plain data. It knows no ONNX.

A player makes one pipeline a kernel, one buffer a slot and one bind group a dispatch; it uploads, records the
dispatches
in order, submits once and reads the outputs back. What differs between runs of one plan is only what is uploaded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.size import Number

VERSION = 1
INLINE_BYTES = 64  # constants up to this size are in the JSON; bigger ones are in the file of weights


@dataclass(frozen=True, slots=True)
class Kernel:
    """One pipeline. `bindings` are "uniform", "read" or "write", in order of @binding; `requires` are WebGPU
    features."""

    name: str
    wgsl: str
    bindings: tuple[str, ...]
    requires: tuple[str, ...] = ()
    workgroup: tuple[int, int, int] = (64, 1, 1)
    workgroup_bytes: int = 0
    entry: str = "main"


@dataclass(frozen=True, slots=True)
class Binding:
    """A window of a buffer. `slot` -1 is the plan's uniforms."""

    slot: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One kernel started once; `nodes` are the ONNX nodes whose work it does."""

    kernel: int
    groups: tuple[int, int, int]
    bindings: tuple[Binding, ...]
    nodes: tuple[str, ...]
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer. `kind` is "constant", "input" or "scratch"; `first` and `last` are the dispatches between which it is
    used
    (-1: before the first one)."""

    size: int
    kind: str
    first: int
    last: int
    tensor: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """What a constant slot holds. `key` names it across plans of one model: equal keys have equal bytes. `storage` is a
    storage type of dtypes.py; `data` of a packed one are words."""

    key: str
    slot: int
    storage: str
    shape: tuple[int, ...]
    data: Array = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Upload:
    """An input of a run: where it goes and how it is stored (f32, f16, i32, u32)."""

    name: str
    slot: int
    offset: int
    size: int
    storage: str
    dtype: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Readback:
    """An output of a run: `size` bytes of a slot, copied to `target` in the staging buffer."""

    name: str
    slot: int
    offset: int
    size: int
    target: int
    storage: str
    dtype: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HostStep:
    """A node that runs on the host after this plan; `reads` come from the device, `writes` are uploaded for the next
    plan."""

    node: str
    op_type: str
    reason: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Kernels, buffers and the order of work for one set of input shapes. `next` follows after the host steps."""

    kernels: tuple[Kernel, ...]
    dispatches: tuple[Dispatch, ...]
    slots: tuple[Slot, ...]
    constants: tuple[Constant, ...]
    uploads: tuple[Upload, ...]
    readbacks: tuple[Readback, ...]
    known: tuple[tuple[str, Array], ...]  # outputs that are constants of the plan
    uniforms: bytes
    staging_bytes: int
    host_steps: tuple[HostStep, ...] = ()
    next: Plan | None = None
    fields: tuple[
        tuple[int, str, Number], ...
    ] = ()  # of the uniforms: byte offset, WGSL type and value, where it is a Size

    @property
    def peak_bytes(self) -> int:
        """Bytes of all device buffers of the plan: constants, inputs, scratch, uniforms and staging."""
        return sum(s.size for s in self.slots) + len(self.uniforms) + self.staging_bytes

    @property
    def flops(self) -> int:
        """Floating-point operations of all dispatches."""
        return sum(d.flops for d in self.dispatches)

    def to_json(self, reference: Callable[[Any], Any] | None = None) -> str:
        """The plan as JSON. Constants over 64 bytes are left out: `constants` holds their bytes, under their keys.
        `reference` says what stands for a size that is an expression."""
        return json.dumps(_plain(self), separators=(",", ":"), sort_keys=True, default=reference)

    @staticmethod
    def from_json(text: str, constants: Mapping[str, Array] | None = None) -> Plan:
        """The plan that `to_json` wrote; `constants` supplies the big ones by key. Raises KeyError for a missing
        one."""
        return _plan(json.loads(text), constants or {})


def _plain(plan: Plan) -> dict[str, Any]:
    return {
        "version": VERSION,
        "kernels": [asdict(k) for k in plan.kernels],
        "dispatches": [
            [d.kernel, d.groups, [[b.slot, b.offset, b.size] for b in d.bindings], d.nodes, d.flops, d.bytes]
            for d in plan.dispatches
        ],
        "slots": [asdict(s) for s in plan.slots],
        "constants": [
            {"key": c.key, "slot": c.slot, "storage": c.storage, "shape": c.shape, "data": _inline(c.data)}
            for c in plan.constants
        ],
        "uploads": [asdict(u) for u in plan.uploads],
        "readbacks": [asdict(r) for r in plan.readbacks],
        "known": [
            {
                "name": n,
                "dtype": int(ir.DataType.from_numpy(a.dtype)),
                "shape": a.shape,
                "data": base64.b64encode(np.ascontiguousarray(a).tobytes()).decode(),
            }
            for n, a in plan.known
        ],
        "uniforms": base64.b64encode(plan.uniforms).decode(),
        "staging_bytes": plan.staging_bytes,
        "host_steps": [asdict(h) for h in plan.host_steps],
        "next": _plain(plan.next) if plan.next else None,
    }


def _inline(data: Array) -> str | None:
    return base64.b64encode(data.tobytes()).decode() if data.nbytes <= INLINE_BYTES else None


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def _constant(c: Mapping[str, Any], supplied: Mapping[str, Array]) -> Constant:
    dtype = {"f32": np.float32, "f16": np.float16, "i32": np.int32}.get(c["storage"], np.uint32)
    data = supplied[c["key"]] if c["data"] is None else np.frombuffer(base64.b64decode(c["data"]), dtype)
    return Constant(c["key"], c["slot"], c["storage"], tuple(c["shape"]), data)


def _known(k: Mapping[str, Any]) -> tuple[str, Array]:
    dtype = ir.DataType(k["dtype"]).numpy()
    return k["name"], np.frombuffer(base64.b64decode(k["data"]), dtype).reshape(k["shape"])


def _plan(d: Mapping[str, Any], supplied: Mapping[str, Array]) -> Plan:
    if d["version"] != VERSION:
        raise ValueError(f"This plan has version {d['version']}; this headrace reads version {VERSION}.")
    dispatches = (
        Dispatch(k, tuple(g), tuple(Binding(*b) for b in bs), tuple(n), f, by) for k, g, bs, n, f, by in d["dispatches"]
    )
    return Plan(
        tuple(Kernel(**_tuples(k)) for k in d["kernels"]),
        tuple(dispatches),
        tuple(Slot(**s) for s in d["slots"]),
        tuple(_constant(c, supplied) for c in d["constants"]),
        tuple(Upload(**_tuples(u)) for u in d["uploads"]),
        tuple(Readback(**_tuples(r)) for r in d["readbacks"]),
        tuple(_known(k) for k in d["known"]),
        base64.b64decode(d["uniforms"]),
        d["staging_bytes"],
        tuple(HostStep(**_tuples(h)) for h in d["host_steps"]),
        _plan(d["next"], supplied) if d["next"] else None,
    )
