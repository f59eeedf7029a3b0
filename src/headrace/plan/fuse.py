"""Decides what becomes one kernel.

Works from the outputs back to the inputs. A *root* is a tensor that must be stored. What lies between a root and the
stored tensors under it (its cone) is one kernel: at most one heavy operation, with the lazy tensors above it as its
epilogue, and those under its inputs as its prologue. Kinds of cuts:

- a lazy tensor on the way from a heavy result to its last use is stored by that heavy kernel (epilogue before
prologue);
- a tensor that several kernels read is stored once if it is costly, and computed again by each reader if it is not;
- a tensor whose other readers must have the very numbers that a kernel has seen (`stored_reads`) is stored: computed
again, it could be rounded otherwise;
- a costly tensor that a matrix-like kernel would compute again for every tile is stored first; where it only adds to a
  stored tensor, the kernel that makes that one stores both (a *rider*);
- a map that is not affine along the loop of its reader is stored first, and so is what needs more buffers than there
are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import DeviceError
from ..kernels.emit import KernelText
from ..kernels.expr import Buffer, Coords, Fill, Heavy, Iota, Map, Result, Stored, Tensor, View
from ..kernels.pointwise import Pointwise
from ..kernels.size import same
from ..kernels.template import Build, Launch, Store
from ..model import Note
from ..ops.attention import fuse_attention
from ..target import Target

SHARED_COST = 8  # a shared tensor that costs more than this is stored
PROLOGUE_COST = 2  # so is one that costs more than this under a kernel that reads each element many times


@dataclass(slots=True)
class Group:
    """One kernel: the heavy operation (None: pointwise), what it stores, and its text."""

    heavy: Heavy | None
    roots: list[Tensor]
    text: KernelText
    launch: Launch


@dataclass(slots=True)
class Cone:
    """What a root computes from: the order is from the root down."""

    paths: dict[int, tuple[View, ...] | None] = field(default_factory=dict)
    leaves: dict[int, Tensor] = field(default_factory=dict)
    fusable: list[Result] = field(default_factory=list)


def live_uses(outputs: Iterable[Tensor]) -> dict[int, int]:
    """How many readers each tensor has, counting only what the outputs need; an output counts as a reader."""
    uses: dict[int, int] = {}
    seen_heavy: set[int] = set()
    stack = list(outputs)
    for x in stack:
        uses[x.serial] = uses.get(x.serial, 0) + 1
    visited: set[int] = set()
    bound: set[int] = set()
    while stack:
        x = stack.pop()
        if x.serial in visited or x.serial in bound:
            continue
        visited.add(x.serial)
        if isinstance(x, Result):
            if id(x.heavy) in seen_heavy:
                continue
            seen_heavy.add(id(x.heavy))
            bound |= x.heavy.template.bound()
        for y in inputs_of(x):
            uses[y.serial] = uses.get(y.serial, 0) + 1
            stack.append(y)
    return uses


def heavies_of(outputs: Iterable[Tensor]) -> list[Heavy]:
    """Every heavy operation that the outputs need, oldest first."""
    found: dict[int, Heavy] = {}
    stack, seen = list(outputs), set()
    while stack:
        x = stack.pop()
        if x.serial not in seen:
            seen.add(x.serial)
            if isinstance(x, Result):
                found[x.serial] = x.heavy
            stack += inputs_of(x)
    return [found[s] for s in sorted(found)]


def inputs_of(x: Tensor) -> tuple[Tensor, ...]:
    """What a tensor is computed from, after passes that replaced heavy operations."""
    return x.heavy.inputs if isinstance(x, Result) else x.inputs


def computed_in(x: Tensor) -> set[int]:
    """Serials of the computed tensors whose elements, moved but not changed, are those of `x`."""
    found: set[int] = set()
    stack = [x]
    while stack:
        y = stack.pop()
        if y.movement and not isinstance(y, Stored):
            stack += y.inputs
        elif not isinstance(y, Buffer | Fill | Iota):
            found.add(y.serial)
    return found


class Fuser:
    """Turns lazy outputs into groups, in the order in which they run."""

    def __init__(self, target: Target, f16: bool) -> None:
        self.target, self.f16 = target, f16
        self.notes: list[Note] = []
        self.buffers: dict[int, Buffer] = {}  # serial -> where that tensor is stored
        self._uses: dict[int, int] = {}
        self._heap: list[tuple[int, Tensor]] = []
        self._riders: dict[int, list[tuple[Tensor, tuple[View, ...]]]] = {}
        self._epilogues: dict[int, Result | None] = {}
        self._costs: dict[int, int] = {}
        self._forced: set[int] = set()  # tensors that no reader may compute again
        self._grounded: set[int] = set()  # tensors that may not ride: the kernel they rode with was too full
        self._bound: set[int] = set()  # results that a kernel computes inside itself

    def run(self, outputs: Sequence[Tensor]) -> list[Group]:
        """The groups that compute `outputs`, each stored in `buffers[serial]`."""
        heavies = heavies_of(outputs)
        fuse_attention(heavies, live_uses(outputs), self.target.loops)
        self._uses = live_uses(outputs)
        read_once = [x for h in heavies if h.template.stored_reads for x in h.inputs]
        self._forced = set().union(*map(computed_in, read_once))
        self._bound = {serial for h in heavies for serial in h.template.bound()}
        for x in outputs:
            self._demand(x)
        groups: list[Group] = []
        done: set[int] = set()
        while self._heap:
            _, x = heapq.heappop(self._heap)
            if x.serial in done:
                continue
            done.add(x.serial)
            if x.size == 0:
                continue
            if isinstance(x, Result) and len(x.heavy.results) > 1:
                for r in x.heavy.results:
                    done.add(r.serial)
                    self._demand(r)
                groups.append(self._group(list(x.heavy.results), x.heavy, {r.serial: () for r in x.heavy.results}))
            elif not self._ride(x):
                try:
                    groups.append(self._single(x))
                except _TooFull:  # begin again without the last rider: what it reads must come before this kernel
                    rider, _ = self._riders[x.serial].pop()
                    self._grounded.add(rider.serial)
                    for y in (x, rider):
                        done.discard(y.serial)
                        heapq.heappush(self._heap, (-y.serial, y))
        groups.reverse()
        return groups

    def _demand(self, x: Tensor) -> None:
        if x.serial not in self.buffers:
            if isinstance(x, Buffer):
                self.buffers[x.serial] = x
                return
            self.buffers[x.serial] = Buffer(f"t{x.serial}", x.shape, x.dtype)
            heapq.heappush(self._heap, (-x.serial, x))

    def _single(self, x: Tensor) -> Group:
        result = x if isinstance(x, Result) else self._epilogue(x)
        if result is None:
            return self._group([x], None, {x.serial: ()})
        path = () if x is result else self._cone(x).paths[result.serial]
        assert path is not None
        return self._group([x], result.heavy, {x.serial: path})

    def _cone(self, root: Tensor) -> Cone:
        """Everything under `root` down to stored or heavy tensors, and which heavy results only it reads."""
        cone = Cone({root.serial: ()})
        heap = [(-root.serial, root)]
        counts = {root.serial: self._uses.get(root.serial, 1)}
        tainted: set[int] = set()
        while heap:
            _, x = heapq.heappop(heap)
            shared = x.serial in tainted or counts[x.serial] < self._uses.get(x.serial, 0)
            if x.serial in self._bound:
                continue
            if isinstance(x, Result):
                alone = len(x.heavy.results) == 1 and not shared and cone.paths[x.serial] is not None
                if alone and x is not root:
                    cone.fusable.append(x)
                cone.leaves[x.serial] = x
                continue
            if x is not root and (
                x.serial in self.buffers or isinstance(x, Buffer | Stored) or (shared and self._store_shared(x))
            ):
                cone.leaves[x.serial] = x
                continue
            for y in x.inputs:
                path = self._step(cone.paths[x.serial], x)
                if y.serial not in counts:
                    counts[y.serial] = 0
                    cone.paths[y.serial] = path
                    heapq.heappush(heap, (-y.serial, y))
                elif cone.paths[y.serial] != path:
                    cone.paths[y.serial] = None
                counts[y.serial] += 1
                if shared and x is not root:
                    tainted.add(y.serial)
        return cone

    @staticmethod
    def _step(path: tuple[View, ...] | None, x: Tensor) -> tuple[View, ...] | None:
        if path is None or isinstance(x, Map):
            return path
        return (*path, x) if isinstance(x, View) and x.back is not None else None

    def _epilogue(self, x: Tensor) -> Result | None:
        """The heavy result whose kernel can store `x`, if any: the newest that only `x` reads, element for element."""
        if x.serial in self._epilogues:
            return self._epilogues[x.serial]
        found = None
        if not isinstance(x, Buffer | Fill | Iota | Result):
            fusable = self._cone(x).fusable
            found = max(fusable, key=lambda r: r.serial) if fusable else None
        self._epilogues[x.serial] = found
        return found

    def _cost(self, x: Tensor) -> int:
        """Scalar work to compute an element of `x` from stored tensors; a load counts 2, the first one nothing."""
        if x.serial in self.buffers or isinstance(x, Buffer | Fill | Iota | Result):
            return 2 if isinstance(x, Buffer | Result) or x.serial in self.buffers else 0
        if x.serial not in self._costs:
            self._costs[x.serial] = x.cost + sum(self._cost(y) for y in x.inputs)
        return self._costs[x.serial]

    def _store_shared(self, x: Tensor) -> bool:
        if isinstance(x, View) and x.back is None:
            return False
        return x.serial in self._forced or self._epilogue(x) is not None or self._cost(x) - 2 > SHARED_COST

    def _ride(self, x: Tensor) -> bool:
        """Let the kernel that stores the newest tensor under `x` store `x` too, where everything else is there by
        then."""
        if isinstance(x, Result) or x.serial in self._grounded or self._riders.get(x.serial):
            return False
        if self._epilogue(x) is not None:
            return False
        cone = self._cone(x)
        leaves = [y for y in cone.leaves.values() if not isinstance(y, Buffer)]
        if not leaves:
            return False
        newest = max(leaves, key=lambda y: y.serial)
        path = cone.paths[newest.serial]
        if path is None or not same(newest.size, x.size) or any(self._epilogue(y) for y in self._inner(x, cone)):
            return False
        if isinstance(newest, Result) and len(newest.heavy.results) > 1:
            return False
        if len(cone.leaves) > 4 or len(self._riders.get(newest.serial, ())) >= 2:
            return False
        self._demand(newest)
        for y in cone.leaves.values():
            self._demand(y)
        self._riders.setdefault(newest.serial, []).append((x, path))
        return True

    def _inner(self, root: Tensor, cone: Cone) -> Iterable[Tensor]:
        stack, seen = list(root.inputs), set()
        while stack:
            y = stack.pop()
            if y.serial in seen or y.serial in cone.leaves:
                continue
            seen.add(y.serial)
            yield y
            stack += y.inputs

    def _above(self, root: Tensor, leaf: Tensor) -> set[int]:
        """Serials of the tensors from which `leaf` is reached, under `root`."""
        found: set[int] = set()

        seen: dict[int, bool] = {}

        def visit(x: Tensor) -> bool:
            if x is leaf:
                return True
            if isinstance(x, Result | Buffer) or x.serial < leaf.serial:
                return False
            if x.serial not in seen:
                seen[x.serial] = sum(visit(y) for y in x.inputs) > 0
                if seen[x.serial]:
                    found.add(x.serial)
            return seen[x.serial]

        visit(root)
        return found

    def _leaves(self, x: Tensor, keep: set[int], bound: set[int], reuse: bool) -> None:
        """Demand the tensors under `x` that must be stored before the kernel that reads it."""
        stack, seen = [x], set()
        while stack:
            y = stack.pop()
            if y.serial in seen or y.serial in bound or isinstance(y, Fill | Iota):
                continue
            seen.add(y.serial)
            if y.serial in keep:
                stack += y.inputs
                continue
            shared = self._uses.get(y.serial, 0) > 1
            stored = isinstance(y, Result | Buffer | Stored) or y.serial in self.buffers or y.serial in self._forced
            if not stored:
                stored = self._epilogue(y) is not None or (shared and self._store_shared(y))
            if not stored and reuse and not (isinstance(y, View) and y.back is None):
                stored = self._cost(y) - 2 > PROLOGUE_COST
            if stored:
                self._demand(y)
            else:
                stack += y.inputs

    def _group(self, roots: list[Tensor], heavy: Heavy | None, paths: dict[int, tuple[View, ...]]) -> Group:
        for root in list(roots):
            for rider, path in self._riders.get(root.serial, ()):
                roots.append(rider)
                paths[rider.serial] = (*path, *paths[root.serial])
        for _ in range(16):
            bound = {r.serial for r in heavy.results} if heavy else set()
            for root in roots:
                keep = {root.serial}
                if heavy and len(heavy.results) == 1:
                    keep |= self._above(root, heavy.results[0])
                elif root is not roots[0]:
                    keep |= self._above(root, roots[0])
                self._leaves(root, keep, bound, False)
            if heavy:
                for x in heavy.inputs:
                    self._leaves(x, set(), heavy.template.bound(), heavy.template.costly_reads)
            group, again = self._emit(roots, heavy, paths)
            if not again:
                return group
        raise DeviceError(
            f"Node {roots[0].node!r}: no kernel within {self.target.storage_buffers} storage buffers was found."
        )

    def _emit(self, roots: list[Tensor], heavy: Heavy | None, paths: dict[int, tuple[View, ...]]) -> tuple[Group, bool]:
        hidden = {r.serial for r in roots}
        text = KernelText("", self.f16, self.target.packed, _Stored(self.buffers, hidden))
        inputs = heavy.inputs if heavy else ()
        build = Build(text, self.target, inputs, results=heavy.results if heavy else ())
        for root in roots:
            index = root.index if heavy and isinstance(root, Result) and root in heavy.results else 0
            build.outputs.append((index, root, self.buffers[root.serial], _placer(paths[root.serial])))
        for node in heavy.nodes if heavy else ():
            text.note(node)
        template = heavy.template if heavy else Pointwise()
        launch = template.build(build)
        text.name = template.name
        again = False
        for index in build.nonaffine:
            x = inputs[index]
            if not isinstance(x, Result | Buffer) and x.serial not in self.buffers:
                self.notes.append(Note("lower", x.node, f"copied first: {template.name} cannot read it along its loop"))
                self._demand(x)
                again = True
        if len(text.reads) + len(text.writes) > self.target.storage_buffers:
            again = True
            if self._riders.get(roots[0].serial):
                raise _TooFull
            self._relieve([*roots, *inputs], hidden, heavy)
        return Group(heavy, roots, text, launch), again

    def _relieve(self, tops: Sequence[Tensor], hidden: set[int], heavy: Heavy | None) -> None:
        """Too many buffers: store the part of the cone that reads the most of them."""
        best: tuple[int, Tensor] | None = None
        path = set().union(*(self._above(t, r) for t in tops for r in heavy.results)) if heavy else set()
        stack, seen = list(tops), set()
        while stack:
            x = stack.pop()
            if (
                x.serial in seen
                or (x.serial in self.buffers and x.serial not in hidden)
                or isinstance(x, Result | Buffer)
            ):
                continue
            seen.add(x.serial)
            reads = len(self._reads(x))
            if x.serial not in hidden and x.serial not in path and 1 < reads < self.target.storage_buffers:
                best = max(best or (0, x), (reads, x), key=lambda p: p[0])
            stack += x.inputs
        if best is None:
            raise DeviceError(
                f"Node {tops[0].node!r} reads more tensors than the {self.target.storage_buffers} storage "
                "buffers that the device allows a kernel."
            )
        self.notes.append(Note("lower", best[1].node, "stored first: its reader would need too many buffers"))
        self._demand(best[1])

    def _reads(self, x: Tensor) -> set[int]:
        found, stack, seen = set(), [x], set()
        while stack:
            y = stack.pop()
            if y.serial in seen or isinstance(y, Fill | Iota):
                continue
            seen.add(y.serial)
            if y.serial in self._bound:
                continue
            if (y is not x and y.serial in self.buffers) or isinstance(y, Result | Buffer):
                found.add(y.serial)
            else:
                stack += y.inputs
        return found


class _TooFull(Exception):
    """A kernel with riders needs more storage buffers than there are."""


class _Stored:
    """The stored tensors, less those that the kernel itself makes."""

    def __init__(self, buffers: dict[int, Buffer], hidden: set[int]) -> None:
        self._buffers, self._hidden = buffers, hidden

    def get(self, serial: int) -> Buffer | None:
        """Where the tensor is stored, if it is."""
        return None if serial in self._hidden else self._buffers.get(serial)


def _placer(path: Sequence[View]) -> Store:
    def place(coords: Coords) -> Coords:
        for view in reversed(path):
            assert view.back is not None
            coords = view.back(coords)
        return coords

    return place
