"""The functions of helpers.wgsl, by name; a kernel's text holds only those that it calls."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def _functions() -> dict[str, str]:
    text = (Path(__file__).parent / "helpers.wgsl").read_text()
    parts = re.split(r"(?m)^(?=fn )", text)
    return {m[1]: part for part in parts if (m := re.match(r"fn (\w+)", part))}


@cache
def helpers_text(*names: str) -> str:
    """WGSL of helpers, each behind the helpers that it calls. Raises KeyError for an unknown name."""
    found = _functions()
    order: dict[str, None] = {}

    def visit(n: str) -> None:
        for other in found:
            if other != n and re.search(rf"\b{other}\(", found[n]):
                visit(other)
        order.setdefault(n)

    for name in names:
        visit(name)
    return "".join(found[n] for n in order)


@cache
def body(path: Path) -> str:
    """Text of a kernel body."""
    return path.read_text()


@cache
def functions_text(text: str, name: str) -> str:
    """The function `name` of a WGSL text behind those that it calls, in the order of the text."""
    parts = {m[1]: part for part in re.split(r"(?m)^(?=fn )", text) if (m := re.match(r"fn (\w+)", part))}
    wanted, stack = set(), [name]
    while stack:
        top = stack.pop()
        wanted.add(top)
        stack += [n for n in parts if n not in wanted and re.search(rf"\b{n}\(", parts[top])]
    return "".join(part for n, part in parts.items() if n in wanted)
