"""Buffer slots from lifetimes: a scratch buffer is used again as soon as nothing reads its old content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SMALL = 1 << 16  # slots below this are not worth fitting tightly
WASTE = 2.0  # a free slot is taken if it is at most so many times larger


@dataclass(frozen=True, slots=True)
class Life:
    """One stored tensor: its bytes, the dispatch that writes it and the last one that reads it."""

    name: str
    size: int
    first: int
    last: int


def assign(lives: Sequence[Life]) -> tuple[list[tuple[int, int, int, str]], dict[str, int]]:
    """Slots as (size, first, last, name of the largest tensor), and the slot of each tensor. `lives` are in order of
    `first`. Best fit among the free slots; else the largest free slot grows, else there is one more."""
    slots: list[list[int]] = []
    names: list[str] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    place: dict[str, int] = {}
    for life in lives:
        free += [s for last, s in busy if last < life.first]
        busy = [(last, s) for last, s in busy if last >= life.first]
        chosen = _best(slots, free, life.size)
        if chosen is None:
            chosen = len(slots)
            slots.append([life.size, life.first, life.last])
            names.append(life.name)
        else:
            free.remove(chosen)
            if life.size > slots[chosen][0]:
                slots[chosen][0] = life.size
                names[chosen] = life.name
            slots[chosen][2] = max(slots[chosen][2], life.last)
        busy.append((life.last, chosen))
        place[life.name] = chosen
    return [(s[0], s[1], s[2], n) for s, n in zip(slots, names, strict=True)], place


def _best(slots: Sequence[Sequence[int]], free: Sequence[int], size: int) -> int | None:
    fits = [s for s in free if slots[s][0] >= size and (slots[s][0] <= WASTE * size or slots[s][0] <= SMALL)]
    if fits:
        return min(fits, key=lambda s: (slots[s][0], s))
    smaller = [s for s in free if slots[s][0] < size]
    return max(smaller, key=lambda s: (slots[s][0], -s)) if smaller else None
