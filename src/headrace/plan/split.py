"""One launch as several dispatches: where a dimension has more workgroups than a device allows, or where it would run
so long that a driver takes the device for hung."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from math import ceil, prod

from ..kernels.emit import word
from ..kernels.size import Size, hint, largest
from ..target import Target

Box = tuple[int, int, int]
ASSUMED_GFLOPS = {True: 5.0, False: 300.0}  # of a software adapter, and of a slow GPU, while no peak was measured
MOST = 256  # dispatches of one launch, at most, for its time
_ID = re.compile(r"@builtin\((workgroup_id|global_invocation_id)\) (\w+): vec3<u32>")
_MAIN = re.compile(r"fn main\([^{]*\{\n")


def seconds(flops: int, target: Target) -> float:
    """How long a dispatch runs at the device's peak."""
    return flops / ((target.gflops or ASSUMED_GFLOPS[target.software]) * 1e9)


def split(groups: Box, flops: int, target: Target) -> list[tuple[Box, Box]]:
    """Boxes of workgroups as (origin, size), each within the limits of the target at the sizes that are planned for."""
    now = [hint(n) for n in groups]
    pieces = [ceil(n / target.workgroups) for n in now]
    wanted = max(1, min(ceil(seconds(hint(flops), target) / target.peak_seconds), MOST))
    longest = max(range(3), key=lambda i: now[i])
    missing = ceil(wanted / prod(pieces))
    pieces[longest] = min(pieces[longest] * missing, now[longest])
    spans = [list(_spans(n, count)) for n, count in zip(groups, pieces, strict=True)]
    return [((x[0], y[0], z[0]), (x[1], y[1], z[1])) for z, y, x in itertools.product(spans[2], spans[1], spans[0])]


def _spans(length: int, pieces: int) -> Iterator[tuple[int, int]]:
    if isinstance(length, Size):  # a part without workgroups, at small sizes, is none
        size = -(-length // pieces)
        for i in range(pieces):
            yield i * size, -largest(-size, -largest(0, length - i * size)) if pieces > 1 else length
        return
    size = ceil(length / pieces)
    for start in range(0, length, size):
        yield start, min(size, length - start)


def shifted(body: str, workgroup: Box) -> str:
    """A kernel's body that finds the first workgroup of its part in the uniforms."""
    found = _ID.search(body)
    assert found is not None, "a kernel without workgroup_id or global_invocation_id"
    kind, name = found[1], found[2]
    origin = "vec3<u32>(u.ORIGIN_X, u.ORIGIN_Y, u.ORIGIN_Z)"
    if kind == "global_invocation_id":
        origin += " * vec3<u32>({}u, {}u, {}u)".format(*workgroup)
    renamed = body[: found.start(2)] + f"{name}_of_part" + body[found.end(2) :]
    head = _MAIN.search(renamed)
    assert head is not None
    return f"{renamed[: head.end()]}    let {name} = {name}_of_part + {origin};\n{renamed[head.end() :]}"


def origin_bytes(uniforms: bytes, origin: Box) -> bytes:
    """The uniforms of a part: its origin is their last three fields."""
    return uniforms[:-12] + b"".join(word("u32", hint(n)) for n in origin)
