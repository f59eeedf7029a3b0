"""Writes one kernel: a header made from lazy tensors (bindings, uniforms, readers, writers) in front of a WGSL body.

A reader is one WGSL function, or two where a loop reads along an axis: `name_row(...)` returns what does not change in
the loop, `name_at(row, k)` is the loop's part. Every number of the index maps is a field of the uniform `u`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from ..dtypes import PACKED_STORAGE, element_type, storage_type, value_type
from .expr import Buffer, Coords, Tensor
from .helpers import helpers_text
from .index import Atom, Lin, variable
from .size import Number, Size, at_least, hint, key_of, largest, same

_WHOLE = re.compile(r"(u\.)?[A-Za-z_]\w*")  # text that needs no parentheses
PACKED_FROM = 64  # elements of a constant that is worth packing
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")


@dataclass(slots=True)
class Line:
    """`let name: type = text`, at a loop depth."""

    name: str
    type: str
    text: str
    level: int


class Scope:
    """The body of one generated function; `level` 0 is the row part and 1 the inner loop's."""

    def __init__(self, kernel: KernelText, tag: str) -> None:
        self.kernel, self.tag = kernel, tag
        self.lines: list[Line] = []
        self.bound: dict[int, str] = {}  # tensor serial -> text of a value that the kernel has already computed
        self.affine = True
        self._values: dict[tuple[int, str], str] = {}
        self._atoms: dict[str, str] = {}
        self._lins: dict[str, str] = {}
        self._levels: dict[str, int] = {}

    def value(self, x: Tensor, coords: Coords) -> str:
        """A name or short text for the element of `x` at `coords`."""
        done = self.bound.get(x.serial)
        if done is not None:
            return done
        buffer = self.kernel.stored.get(x.serial)
        key = (x.serial, ",".join(c.key for c in coords))
        found = self._values.get(key)
        if found is None:
            self.kernel.note(x.node)
            if buffer is not None:
                found = buffer.emit(self, coords)
            elif x.movement:
                found = x.emit(self, coords)
            else:
                text = x.emit(self, coords)
                found = text if _WHOLE.fullmatch(text) else self.let(text, x.type)
            self._values[key] = found
        return found

    def level_of(self, text: str) -> int:
        """The deepest loop level among the names in `text`."""
        return max((self._levels.get(n, 0) for n in _NAME.findall(text)), default=0)

    def let(self, text: str, type_: str, level: int | None = None) -> str:
        """Name a piece of text; it is computed at the outermost level that its names allow."""
        level = self.level_of(text) if level is None else level
        name = f"t{len(self.lines)}"
        self.lines.append(Line(name, type_, text, level))
        self._levels[name] = level
        return name

    def declare(self, name: str, level: int) -> None:
        """Make a variable's level known."""
        self._levels[name] = level

    def param(self, value: float | Number, type_: str, role: str = "") -> str:
        """A number as a field of the uniform."""
        return self.kernel.param(value, type_, f"{self.tag}:{role}" if role else "")

    def need_helper(self, name: str) -> None:
        """Ask for a function of helpers.wgsl."""
        self.kernel.helpers.setdefault(name)

    def data_index(self, text: str, extent: Number) -> Lin:
        """An i32 read from memory, to be used as a coordinate in [0, extent)."""
        name = self.let(text, "i32")
        level = self._levels[name]
        self.affine = self.affine and level == 0
        return Lin([(Atom("var", name, 0, largest(extent - 1, 0), level), 1)])

    def test(self, text: str) -> str:
        """A condition; inside the inner loop it makes the map non-affine."""
        name = self.let(text, "bool")
        self.affine = self.affine and self._levels[name] == 0
        return name

    def lin(self, x: Lin) -> str:
        """WGSL text (i32) of an integer expression, its loop-invariant part hoisted."""
        found = self._lins.get(x.key)
        if found is None:
            found = self._lin(x)
            self._lins[x.key] = found
        return found

    def _lin(self, x: Lin) -> str:
        outer = [t for t in x.terms if t[0].level == 0]
        inner = [t for t in x.terms if t[0].level > 0]
        head = [self._term(a, c) for a, c in outer]
        if not same(x.const, 0):
            head.append(self.param(x.const, "i32", "+" + _shape_of(x)))
        text = " + ".join(head) if head else "0"
        if not inner:
            return text if not head or (len(head) == 1 and _NAME.fullmatch(text)) else self.let(text, "i32", 0)
        tail = [self._term(a, c) for a, c in inner]
        if head and not (len(head) == 1 and _NAME.fullmatch(text)):
            text = self.let(text, "i32", 0)
        text = " + ".join([*([text] if head else []), *tail])
        return text if _NAME.fullmatch(text) else self.let(text, "i32", 1)

    def _term(self, atom: Atom, c: Number) -> str:
        name = self._atom(atom)
        if same(c, 1):
            return name
        return f"{name} * {self.param(c, 'i32', '*' + name)}"

    def _atom(self, atom: Atom) -> str:
        if atom.op == "var":
            return atom.key
        found = self._atoms.get(atom.key)
        if found is None:
            assert atom.lin is not None
            inner = self.lin(atom.lin)
            if atom.level > 0:
                self.affine = False
            divisor = self.param(atom.n, "u32", "/" + inner)
            found = self.let(f"i32(u32({inner}) {atom.op} {divisor})", "i32", atom.level)
            self._atoms[atom.key] = found
        return found

    def load(self, buffer: Buffer, position: Lin) -> str:
        """The element of a buffer at a row-major position."""
        name, storage = self.kernel.bind(buffer)
        if storage != element_type(storage):
            return self.let(_unpacked(name, storage, self.lin(position)), buffer.type, position.level)
        text = f"{name}[{self.lin(position)}]"
        if buffer.type == "bool":
            text = f"({text} != 0u)"
        elif storage == "f16":
            text = f"f32({text})"
        return self.let(text, buffer.type, position.level)


def _unpacked(name: str, storage: str, at: str) -> str:
    """One of the values that share a word of a packed buffer."""
    if storage == "f16x2":
        return f"unpack2x16float({name}[({at}) >> 1u])[({at}) & 1]"
    word = f"{name}[({at}) >> 2u]"
    word = f"bitcast<i32>({word})" if storage == "i8x4" else word
    return f"extractBits({word}, u32(({at}) & 3) * 8u, 8u)"


def _shape_of(x: Lin) -> str:
    return "+".join(a.key for a, _ in x.terms)


class Storage(Protocol):
    """Says where a tensor is stored, by its serial."""

    def get(self, serial: int, /) -> Buffer | None: ...


@dataclass(slots=True)
class KernelText:
    """Collects the parts of one kernel's text and of its uniform."""

    name: str
    f16: bool = False
    packed: bool = False  # constants of few bits stand several to a word
    stored: Storage = field(default_factory=lambda: dict[int, Buffer]())
    consts: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    helpers: dict[str, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)
    reads: dict[str, tuple[Buffer, str, str]] = field(default_factory=dict)  # buffer name -> (buffer, binding, storage)
    writes: list[tuple[Buffer, str, str]] = field(default_factory=list)
    affine: bool = True
    _params: list[tuple[str, str, float | Number]] = field(default_factory=list)
    _roles: dict[tuple[str, str, object], str] = field(default_factory=dict)

    def note(self, node: str) -> None:
        """Remember the ONNX node that this kernel does (a part of) the work of."""
        if node:
            self.nodes.setdefault(node)

    def const(self, **values: int | float | str | bool) -> None:
        """Compile-time constants of the body."""
        for key, value in values.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self.consts.append(f"const {key} = {text};")

    def alias(self, name: str, type_: str) -> None:
        """`alias name = type`."""
        self.consts.append(f"alias {name} = {type_};")

    def uniform(self, **values: Number | float) -> None:
        """Named fields of the uniform `u`: i32 for ints, f32 for floats."""
        for key, value in values.items():
            self._params.append((key, "f32" if isinstance(value, float) else "i32", value))

    def uniform_as(self, name: str, type_: str, value: Number | float) -> None:
        """A named field of a given WGSL type."""
        self._params.append((name, type_, value))

    def param(self, value: float | Number, type_: str, role: str = "") -> str:
        """An unnamed field of the uniform; equal numbers share one only where their role in the text is the same."""
        key = (type_, role, key_of(value) if isinstance(value, Size) else value if value == value else "nan")
        name = self._roles.get(key) if role else None
        if name is None:
            name = f"p{len(self._params)}"
            self._params.append((name, type_, value))
            self._roles[key] = name
        return f"u.{name}"

    def bind(self, buffer: Buffer) -> tuple[str, str]:
        """The name and storage type under which a buffer is read."""
        found = self.reads.get(buffer.name)
        if found is None:
            found = (buffer, f"r{len(self.reads)}", self._storage(buffer))
            self.reads[buffer.name] = found
        return found[1], found[2]

    def _storage(self, buffer: Buffer) -> str:
        if self.packed and buffer.data is not None and buffer.data.size >= PACKED_FROM:
            packed = "f16x2" if buffer.half else PACKED_STORAGE.get(buffer.dtype)
            if packed is not None and not (packed == "f16x2" and self.f16):
                return packed
        return storage_type(buffer.dtype, self.f16)

    def reader(self, name: str, x: Tensor, coords: Coords, row: Sequence[str], at: Sequence[str] = ()) -> None:
        """Function(s) that return the element of `x` at `coords`, whose variables are `row` and, inside the loop,
        `at`."""
        scope = Scope(self, name)
        for v in row:
            scope.declare(v, 0)
        for v in at:
            scope.declare(v, 1)
        result = scope.value(x, coords)
        self.affine = self.affine and scope.affine
        arguments = ", ".join(f"{v}: i32" for v in row)
        if not at:
            body = "".join(f"    let {line.name} = {line.text};\n" for line in scope.lines)
            self.functions.append(f"fn {name}({arguments}) -> {x.type} {{\n{body}    return {result};\n}}\n")
            return
        self._row_and_at(name, x.type, scope, result, row, at)

    def bound_reader(
        self,
        name: str,
        x: Tensor,
        coords: Coords,
        row: Sequence[str],
        bound: Mapping[int, str],
        values: Sequence[tuple[str, str]],
    ) -> None:
        """A reader in which some tensors are arguments: `bound` maps their serials to the names in `values`."""
        scope = Scope(self, name)
        scope.bound.update(bound)
        result = scope.value(x, coords)
        arguments = ", ".join([*(f"{v}: i32" for v in row), *(f"{n}: {t}" for n, t in values)])
        body = "".join(f"    let {line.name} = {line.text};\n" for line in scope.lines)
        self.functions.append(f"fn {name}({arguments}) -> {x.type} {{\n{body}    return {result};\n}}\n")

    def _row_and_at(
        self, name: str, type_: str, scope: Scope, result: str, row: Sequence[str], at: Sequence[str]
    ) -> None:
        inner = [line for line in scope.lines if line.level > 0]
        outer = [line for line in scope.lines if line.level == 0]
        used = {n for line in inner for n in _NAME.findall(line.text)} | {result}
        kept = [(v, "i32") for v in row if v in used] + [(line.name, line.type) for line in outer if line.name in used]
        fields = kept or [("unused", "i32")]
        struct_name = f"Row_{name}"
        self.functions.append(f"struct {struct_name} {{ {', '.join(f'{n}: {t}' for n, t in fields)} }}\n")
        body = "".join(f"    let {line.name} = {line.text};\n" for line in outer)
        values = ", ".join(n for n, _ in kept) or "0"
        arguments = ", ".join(f"{v}: i32" for v in row)
        self.functions.append(
            f"fn {name}_row({arguments}) -> {struct_name} {{\n{body}    return {struct_name}({values});\n}}\n"
        )
        names = {n for n, _ in kept}

        def field_of(text: str) -> str:
            return _NAME.sub(lambda m: f"r.{m[0]}" if m[0] in names else m[0], text)

        body = "".join(f"    let {line.name} = {field_of(line.text)};\n" for line in inner)
        arguments = ", ".join(f"{v}: i32" for v in at)
        self.functions.append(
            f"fn {name}_at(r: {struct_name}, {arguments}) -> {type_} {{\n{body}    return {field_of(result)};\n}}\n"
        )

    def writer(
        self,
        name: str,
        outputs: Sequence[tuple[Tensor, Buffer, Coords]],
        bound: Mapping[int, str],
        variables: Sequence[str],
        values: Sequence[tuple[str, str]],
        guard: Sequence[tuple[Lin, Number]] = (),
    ) -> None:
        """A function that stores: each output is a lazy tensor over the values just computed (`bound`), its buffer and
        the coordinates of the element that the kernel holds. `values` are the (name, type) of the computed arguments.
        `guard`: nothing is stored unless each expression lies in [0, extent)."""
        scope = Scope(self, name)
        scope.bound.update(bound)
        for v in variables:
            scope.declare(v, 0)
        tests = [t for c, n in guard for t in self._guard(scope, c, n)]
        cut = len(scope.lines)
        stores = []
        for x, buffer, coords in outputs:
            text = scope.value(x, coords)
            position = scope.lin(flatten_lazily(coords, buffer))
            stores.append(f"    {self._target(buffer)}[{position}] = {self._stored(buffer, text)};\n")
        arguments = ", ".join([*(f"{v}: i32" for v in variables), *(f"{n}: {t}" for n, t in values)])
        lines = [f"    let {line.name} = {line.text};\n" for line in scope.lines]
        if tests:
            lines.insert(cut, f"    if ({' || '.join(tests)}) {{\n        return;\n    }}\n")
        self.functions.append(f"fn {name}({arguments}) {{\n{''.join([*lines, *stores])}}}\n")

    @staticmethod
    def _guard(scope: Scope, c: Lin, extent: Number) -> list[str]:
        tests = [] if at_least(c.lo, 0) else [f"{scope.lin(c)} < 0"]
        if at_least(extent - 1, c.hi):
            return tests
        return [*tests, f"{scope.lin(c)} >= {scope.param(extent, 'i32', 'guard' + c.key)}"]

    def _target(self, buffer: Buffer) -> str:
        for known, name, _ in self.writes:
            if known is buffer:
                return name
        self.writes.append((buffer, f"w{len(self.writes)}", storage_type(buffer.dtype, self.f16)))
        return self.writes[-1][1]

    def _stored(self, buffer: Buffer, text: str) -> str:
        if buffer.type == "bool":
            return f"select(0u, 1u, {text})"
        return f"f16({text})" if storage_type(buffer.dtype, self.f16) == "f16" else text

    def requires(self) -> tuple[str, ...]:
        """Features that the text needs."""
        half = any(s == "f16" for _, _, s in [*self.reads.values(), *self.writes])
        return ("shader-f16",) if half else ()

    def text(self, body: str) -> str:
        """The whole kernel."""
        fields = "".join(f"    {n}: {t},\n" for n, t, _ in self._params) or "    unused: u32,\n"
        lines = [f"struct Params {{\n{fields}}}\n", "@group(0) @binding(0) var<uniform> u: Params;\n"]
        for i, (_, name, storage) in enumerate(self.reads.values()):
            lines.append(f"@group(0) @binding({i + 1}) var<storage, read> {name}: array<{element_type(storage)}>;\n")
        for i, (_, name, storage) in enumerate(self.writes):
            n = i + 1 + len(self.reads)
            lines.append(f"@group(0) @binding({n}) var<storage, read_write> {name}: array<{storage}>;\n")
        lines += [c + "\n" for c in self.consts]
        lines.append(helpers_text(*self.helpers))
        return "".join([*lines, *self.functions, body])

    def uniform_bytes(self) -> bytes:
        """The uniform's content; for sizes that are expressions, at the traced sizes."""
        words = (word(type_, hint(value) if isinstance(value, Size) else value) for _, type_, value in self._params)
        return b"".join(words) or b"\0\0\0\0"

    def uniform_sizes(self) -> list[tuple[int, str, Number]]:
        """Byte offset, WGSL type and value of the fields that are expressions."""
        return [(4 * i, t, cast(Number, v)) for i, (_, t, v) in enumerate(self._params) if isinstance(v, Size)]


def word(type_: str, value: float) -> bytes:
    """One field of a uniform."""
    return struct.pack("<f", _float32(float(value))) if type_ == "f32" else struct.pack("<I", int(value) & 0xFFFFFFFF)


def _float32(value: float) -> float:
    """A double that overflows float32 becomes infinity, as a cast does."""
    if abs(value) > 3.4028235677973366e38 and value == value:
        return float("inf") if value > 0 else float("-inf")
    return value


def flatten_lazily(coords: Coords, buffer: Buffer) -> Lin:
    """Row-major position of coordinates in a buffer."""
    from .index import flatten

    return flatten(coords, buffer.shape)


def loop_variables(shape: Sequence[Number], names: Sequence[str], level: int = 0) -> Coords:
    """One variable an axis."""
    return tuple(variable(n, e, level) for n, e in zip(names, shape, strict=True))


__all__ = ["KernelText", "Scope", "loop_variables", "value_type"]
