"""The kernel of a lazy tensor that nothing else computes: one thread an element."""

from __future__ import annotations

from dataclasses import dataclass

from .index import unflatten, variable
from .template import Build, Launch, Template, ceil_div, spread

GROUP = 64
BODY = """
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * WG + lane);
    if (i < u.size) {
        element(i);
    }
}
"""


@dataclass(frozen=True)
class Pointwise(Template):
    """Stores one lazy tensor; `text` of the tensor is in the writer itself."""

    name = "pointwise"

    def build(self, b: Build) -> Launch:
        x = b.outputs[0][1]
        i = variable("i", x.size)
        groups = spread(ceil_div(x.size, GROUP), b.target.workgroups)
        b.text.const(WG=f"{GROUP}u")
        b.text.uniform(size=x.size, groups_x=groups[0])
        coords = unflatten(i, x.shape)
        b.text.writer("element", [(t, buffer, place(coords)) for _, t, buffer, place in b.outputs], {}, ["i"], [])
        return Launch(BODY, (*groups, 1), x.size)
