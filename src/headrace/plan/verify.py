"""The only gate before a submit. wgpu-native aborts the process on what WebGPU calls a validation error at submit, so
whatever it would refuse must be refused here, with the tensor and the limit by name."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import DeviceError
from ..target import DEFAULT, Target
from .plan import Dispatch, Plan

UNIFORMS = -1


def verify_plan(plan: Plan, target: Target = DEFAULT) -> None:
    """Raise DeviceError if `plan` breaks a limit of `target` or a rule of WebGPU; the message lists all that is
    wrong."""
    wrong = [*_slots(plan, target), *_kernels(plan, target), *_transfers(plan)]
    for i, d in enumerate(plan.dispatches):
        wrong += (
            [
                f"dispatch {i} ({plan.kernels[d.kernel].name}, {', '.join(d.nodes) or 'no node'}): {text}"
                for text in _dispatch(plan, d, target)
            ]
            if 0 <= d.kernel < len(plan.kernels)
            else [f"dispatch {i}: no kernel {d.kernel}"]
        )
    if wrong:
        raise DeviceError("The plan does not fit the device:\n" + "\n".join(f"  {w}" for w in wrong))
    if plan.next:
        verify_plan(plan.next, target)


def _slots(plan: Plan, target: Target) -> Iterator[str]:
    for i, s in enumerate(plan.slots):
        if s.size > target.buffer_bytes:
            yield f"tensor {s.tensor or i} needs a buffer of {s.size} bytes, over the limit of {target.buffer_bytes}"
        if s.size <= 0 or s.size % 4:
            yield f"slot {i} has {s.size} bytes: not a positive multiple of 4"
    if plan.staging_bytes > target.buffer_bytes:
        yield f"the outputs need {plan.staging_bytes} bytes of staging, over the limit of {target.buffer_bytes}"


def _kernels(plan: Plan, target: Target) -> Iterator[str]:
    for k in plan.kernels:
        if sum(b != "uniform" for b in k.bindings) > target.storage_buffers:
            count = len(k.bindings) - 1
            yield f"kernel {k.name} binds {count} storage buffers, over the limit of {target.storage_buffers}"
        x, y, z = k.workgroup
        if x * y * z > target.workgroup_size or max(x, y) > 256 or z > 64 or min(k.workgroup) < 1:
            yield f"kernel {k.name} has a workgroup of {x}x{y}x{z}, over the limit of {target.workgroup_size}"
        if k.workgroup_bytes > target.workgroup_bytes:
            yield f"kernel {k.name} uses {k.workgroup_bytes} bytes of workgroup memory, over {target.workgroup_bytes}"
        if "shader-f16" in k.requires and not target.f16:
            yield f"kernel {k.name} requires shader-f16, which the device does not have"


def _dispatch(plan: Plan, d: Dispatch, target: Target) -> Iterator[str]:
    kernel = plan.kernels[d.kernel]
    if min(d.groups) < 1 or max(d.groups) > target.workgroups:
        yield f"{d.groups} workgroups are not between 1 and {target.workgroups} in every dimension"
    if len(d.bindings) != len(kernel.bindings):
        yield f"{len(d.bindings)} buffers for {len(kernel.bindings)} bindings"
        return
    written: dict[int, int] = {}
    seen: set[int] = set()
    for b, kind in zip(d.bindings, kernel.bindings, strict=True):
        yield from _window(plan, b.slot, b.offset, b.size, target, kind)
        if kind == "write":
            written[b.slot] = written.get(b.slot, 0) + 1
        elif kind == "read":
            seen.add(b.slot)
    for slot, n in written.items():
        if n > 1 or slot in seen:
            yield f"slot {slot} is bound twice, once to write"


def _window(plan: Plan, slot: int, offset: int, size: int, target: Target, kind: str) -> Iterator[str]:
    if slot == UNIFORMS:
        if kind != "uniform":
            yield "the uniforms are bound as storage"
        total = len(plan.uniforms)
        limit = 65536
    elif not 0 <= slot < len(plan.slots):
        yield f"no slot {slot}"
        return
    else:
        total, limit = plan.slots[slot].size, target.binding_bytes
        if kind == "write" and plan.slots[slot].kind != "scratch":
            yield f"slot {slot} is written but is {plan.slots[slot].kind}"
    name = _name(plan, slot, offset)
    if size > limit:
        yield f"tensor {name} is {size} bytes, over the device's binding limit of {limit} bytes"
    if size <= 0 or size % 4 or offset % target.offset_align or offset + size > total:
        yield f"window {offset}+{size} of {name} ({total} bytes) is empty, unaligned or outside"


def _name(plan: Plan, slot: int, offset: int) -> str:
    """What a window of a buffer is called."""
    if slot < 0:
        return "the uniforms"
    if plan.slots[slot].kind == "input":
        return next((u.name for u in plan.uploads if u.offset == offset), "the inputs")
    return plan.slots[slot].tensor or f"slot {slot}"


def _transfers(plan: Plan) -> Iterator[str]:
    for u in plan.uploads:
        if u.offset % 4 or u.size <= 0 or u.size % 4 or u.offset + u.size > plan.slots[u.slot].size:
            yield f"upload of {u.name} ({u.offset}+{u.size}) does not fit its slot"
    for r in plan.readbacks:
        if r.size and (
            r.offset % 4
            or r.target % 4
            or r.size % 4
            or r.offset + r.size > plan.slots[r.slot].size
            or r.target + r.size > plan.staging_bytes
        ):
            yield f"readback of {r.name} ({r.offset}+{r.size}) does not fit"
    for c in plan.constants:
        if c.data.nbytes > plan.slots[c.slot].size:
            yield f"constant {c.key} is larger than its slot"
    if len(plan.uniforms) % 4:
        yield "the uniforms are not a multiple of 4 bytes"
