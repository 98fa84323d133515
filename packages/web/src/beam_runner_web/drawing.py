"""The graph of a view as a drawing that needs no script: steps in layers, edges as lines between them.

What stands in a layer is put where what it is connected to stands, as far as there is room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise

import attrs

WIDTH = 216
_HEAD = 38
_LINE = 16
_BETWEEN = 26
_OF_PASSING = 12
_LAYER_GAP = 34
_MARGIN = 14
_SWEEPS = 6


@attrs.frozen
class Box:
    """Where a step is drawn."""

    key: str
    x: float
    y: float
    height: float


@attrs.frozen
class Line:
    """An edge as a path in SVG's words; its text stands at `x`, `y`."""

    source: str
    target: str
    path: str
    x: float
    y: float


@attrs.frozen
class Drawing:
    """Boxes and lines within `width` and `height`."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


@attrs.frozen
class _Place:
    """A step in a layer, or an edge that passes through one."""

    layer: int
    key: str
    to: str = ""


def drawing(lines: Mapping[str, int], edges: Iterable[tuple[str, str]]) -> Drawing:
    """Draws steps by their keys, each with as many `lines` of text below its name, and edges between
    them.
    """
    wanted = tuple(dict.fromkeys(edges))
    ahead = _without_cycles(lines, wanted)
    layers = _layers(lines, ahead)
    ways = {edge: _way(edge, layers) for edge in ahead}
    rows = _rows(layers, ways.values())
    middles = _middles(rows, ways.values())
    left = min((middles[p] - _half(p) for p in middles), default=0.0) - _MARGIN
    right = max((middles[p] + _half(p) for p in middles), default=0.0) + _MARGIN
    tops, heights, top = [], [], float(_MARGIN)
    for row in rows:
        tops.append(top)
        heights.append(max((_height(lines[p.key]) for p in row if not p.to), default=0))
        top += heights[-1] + _LAYER_GAP
    boxes = {
        p.key: Box(
            p.key, round(middles[p] - left - WIDTH / 2, 1), tops[p.layer], _height(lines[p.key])
        )
        for p in middles
        if not p.to
    }
    drawn = []
    for source, target in wanted:
        way = ways.get((source, target), ())
        passing = [
            (middles[p] - left, tops[p.layer], tops[p.layer] + heights[p.layer]) for p in way[1:-1]
        ]
        drawn.append(_line(boxes[source], boxes[target], passing))
    return Drawing(
        tuple(boxes[key] for key in lines),
        tuple(drawn),
        round(right - left, 1),
        top - _LAYER_GAP + _MARGIN if rows else 0.0,
    )


def _height(lines: int) -> float:
    return _HEAD + max(1, lines) * _LINE


def _half(place: _Place) -> float:
    return _OF_PASSING / 2 if place.to else WIDTH / 2


def _without_cycles(
    keys: Iterable[str], edges: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """The edges less those that close a cycle: closed composites may give to each other both ways."""
    following: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        following[source].append(target)
    open_, finished = set[str](), set[str]()
    back = set[tuple[str, str]]()
    for start in keys:
        pending = [(start, iter(following[start]))] if start not in finished else []
        open_.update(one for one, _ in pending)
        while pending:
            key, rest = pending[-1]
            child = next(rest, None)
            if child is None:
                open_.discard(key)
                finished.add(key)
                pending.pop()
            elif child in open_:
                back.add((key, child))
            elif child not in finished:
                open_.add(child)
                pending.append((child, iter(following[child])))
    return tuple(edge for edge in edges if edge not in back)


def _layers(keys: Iterable[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """For each step its layer: below all that give to it."""
    found = dict.fromkeys(keys, 0)
    above: dict[str, list[str]] = {key: [] for key in found}
    for source, target in edges:
        above[target].append(source)
    for key in TopologicalSorter(above).static_order():
        found[key] = max((found[one] + 1 for one in above[key]), default=0)
    return found


def _way(edge: tuple[str, str], layers: Mapping[str, int]) -> tuple[_Place, ...]:
    source, target = edge
    first, last = layers[source], layers[target]
    passing = (_Place(layer, source, target) for layer in range(first + 1, last))
    return (_Place(first, source), *passing, _Place(last, target))


def _rows(
    layers: Mapping[str, int], ways: Iterable[tuple[_Place, ...]]
) -> tuple[tuple[_Place, ...], ...]:
    """What stands in each layer, from left to right: few edges are to cross."""
    rows: list[list[_Place]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for key, layer in layers.items():
        rows[layer].append(_Place(layer, key))
    above, below = _neighbours(ways)
    for place in above:
        if place.to:
            rows[place.layer].append(place)
    order = {place: float(at) for row in rows for at, place in enumerate(row)}
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            mean = _mean_of(above if down else below, order)
            row.sort(key=lambda place, mean=mean: mean(place))  # type: ignore[misc]
            order.update((place, float(at)) for at, place in enumerate(row))
    return tuple(map(tuple, rows))


_Neighbours = Mapping[_Place, list[_Place]]


def _neighbours(ways: Iterable[tuple[_Place, ...]]) -> tuple[_Neighbours, _Neighbours]:
    """For each place those that it is connected to in the layer above, and in that below."""
    above, below = defaultdict[_Place, list[_Place]](list), defaultdict[_Place, list[_Place]](list)
    for way in ways:
        for upper, lower in pairwise(way):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


def _mean_of(neighbours: _Neighbours, values: Mapping[_Place, float]) -> Callable[[_Place], float]:
    """What the neighbours of a place come to on average; the place's own value where it has none."""

    def mean(place: _Place) -> float:
        found = [values[one] for one in neighbours.get(place, ())]
        return sum(found) / len(found) if found else values[place]

    return mean


def _middles(
    rows: Sequence[Sequence[_Place]], ways: Iterable[tuple[_Place, ...]]
) -> dict[_Place, float]:
    """Where the middle of each place is, from left to right."""
    middles: dict[_Place, float] = {}
    for row in rows:
        middles.update(zip(row, _apart(row, [0.0] * len(row)), strict=True))
    above, below = _neighbours(ways)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = list(map(_mean_of(above if down else below, middles), row))
            middles.update(zip(row, _apart(row, wanted), strict=True))
    return middles


def _apart(row: Sequence[_Place], wanted: Sequence[float]) -> list[float]:
    """Places near where they are wanted, in their order, with room between them.

    Pushed apart from the left, and from the right; the average of both keeps the distances, too.
    """
    rooms = [
        _half(one) + _half(next_) + (_OF_PASSING if one.to and next_.to else _BETWEEN)
        for one, next_ in pairwise(row)
    ]
    from_left, from_right = list(wanted), list(wanted)
    for at, room in enumerate(rooms):
        from_left[at + 1] = max(from_left[at + 1], from_left[at] + room)
    for at in range(len(rooms) - 1, -1, -1):
        from_right[at] = min(from_right[at], from_right[at + 1] - rooms[at])
    return [(one + other) / 2 for one, other in zip(from_left, from_right, strict=True)]


def _line(source: Box, target: Box, passing: Sequence[tuple[float, float, float]]) -> Line:
    """A line from the lower side of a box to the upper side of another, through the layers between."""
    x, y = source.x + WIDTH / 2, source.y + source.height
    end_x, end_y = target.x + WIDTH / 2, target.y
    parts = [f"M{x:.1f},{y:.1f}"]
    bends = [*passing, (end_x, end_y - 5, end_y - 5)]
    for to_x, top, bottom in bends if end_y > y else bends[-1:]:
        bend = max(18.0, abs(top - y) / 2)
        parts.append(f"C{x:.1f},{y + bend:.1f} {to_x:.1f},{top - bend:.1f} {to_x:.1f},{top:.1f}")
        if bottom > top:
            parts.append(f"V{bottom:.1f}")
        x, y = to_x, bottom
    first = bends[0]
    text_x = (source.x + WIDTH / 2 + first[0]) / 2
    text_y = (source.y + source.height + first[1]) / 2
    return Line(source.key, target.key, " ".join(parts), round(text_x + 6, 1), round(text_y + 4, 1))
