"""Sizes as a table in `plan.json`: entries computed one after the other from the dimensions, and numbers that refer to
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..kernels.polynomial import Atom
from ..kernels.size import Guard, Size
from ..plan import Plan


class SizeTable:
    """The expressions of all plans of a bundle. The first entries are the dimensions themselves; then come sums
    `[constant, [coefficient, entry, ...], ...]`, `["/", entry, entry]` (rounded down) and `["max", entry, entry]`."""

    def __init__(self, dims: int) -> None:
        self._numbers = {f"${i}": i for i in range(dims)}
        self._count = dims
        self.entries: list[list[Any]] = []

    def _add(self, key: str, entry: list[Any]) -> int:
        self.entries.append(entry)
        self._numbers[key] = self._count + len(self.entries) - 1
        return self._numbers[key]

    def number(self, value: Any) -> int:
        """The entry of a value."""
        key = value.key if isinstance(value, Size) else f"={value}"
        found = self._numbers.get(key)
        if found is not None:
            return found
        if not isinstance(value, Size):
            return self._add(key, [value])
        terms = [[c, *map(self._atom, m)] for m, c in value.terms if m]
        if not value.constant and len(terms) == 1 and len(terms[0]) == 2 and terms[0][0] == 1:
            return int(terms[0][1])
        return self._add(key, [value.constant, *terms])

    def _atom(self, atom: Atom) -> int:
        found = self._numbers.get(atom.name)
        if found is None:
            parts = [self.number(a) for a in atom.args]
            found = self._add(atom.name, ["/" if atom.op == "//" else atom.op, *parts])
        return found

    def reference(self, value: Any) -> dict[str, int]:
        """What stands in JSON for a value that is no plain number; for `json.dumps(default=...)`."""
        if not isinstance(value, Size):
            raise TypeError(f"{value!r} is no part of a plan")
        return {"e": self.number(value)}

    def fields(self, plan: Plan) -> dict[str, list[Any]]:
        """The words of a plan's uniforms that are expressions: how many bytes each is behind the one before it, its
        type, and its entry."""
        starts = [at for at, _, _ in plan.fields]
        steps = [at - before for before, at in zip([0, *starts], starts, strict=False)]
        entries = [self.number(size) for _, _, size in plan.fields]
        return {"steps": steps, "types": [type_ for _, type_, _ in plan.fields], "entries": entries}

    def guards(self, guards: Sequence[Guard]) -> list[list[Any]]:
        """Conditions on the dimensions, with their text."""
        return [[self.number(g.size), g.relation, str(g)] for g in guards]
