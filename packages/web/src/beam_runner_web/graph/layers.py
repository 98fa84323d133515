"""Layout of a graph in layers (rows of boxes): each box is below the boxes of its inputs, with
space for edges between boxes.

Within a layer, each box is as near as possible to its connected boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from statistics import fmean as mean

import attrs

_OF_PASSING = 12
_BETWEEN = 26
_LAYER_GAP = 34
_MARGIN = 14
_SWEEPS = 6

Size = tuple[float, float]
"""Width and height."""
Edge = tuple[str, str]


@attrs.frozen
class LayerLayout:
    """The positions of boxes within `size`.

    Attributes:
        corners: upper left corner of each box.
        passing: for each edge, a point in each layer that the edge crosses: the horizontal
            position, and the top and the bottom of the layer.
    """

    corners: Mapping[str, tuple[float, float]]
    passing: Mapping[Edge, tuple[tuple[float, float, float], ...]]
    size: Size


@attrs.frozen
class _LayerItem:
    """A box in a layer, or an edge that passes through the layer."""

    layer: int
    key: str
    half: float
    to: str = ""


def arrange_boxes_in_layers(sizes: Mapping[str, Size], edges: Iterable[Edge]) -> LayerLayout:
    """Returns the positions of boxes and of the edges between them. `sizes` has the size of each box by its key."""
    layers, ahead = _assign_layers(tuple(sizes), tuple(dict.fromkeys(edges)))
    boxes = {key: _LayerItem(layer, key, sizes[key][0] / 2) for key, layer in layers.items()}
    ways = {edge: _make_edge_items(boxes[edge[0]], boxes[edge[1]]) for edge in ahead}
    rows = _group_by_layer(
        (*boxes.values(), *(place for way in ways.values() for place in way[1:-1]))
    )
    middles = _compute_middles(rows, ways.values())
    left = min((middle - place.half for place, middle in middles.items()), default=0.0) - _MARGIN
    right = max((middle + place.half for place, middle in middles.items()), default=0.0) + _MARGIN
    tops, bottoms, top = [], [], float(_MARGIN)
    for row in rows:
        tops.append(top)
        bottoms.append(top + max(sizes[place.key][1] for place in row if not place.to))
        top = bottoms[-1] + _LAYER_GAP
    return LayerLayout(
        {
            key: (round(middles[place] - place.half - left, 1), tops[place.layer])
            for key, place in boxes.items()
        },
        {
            edge: tuple((middles[p] - left, tops[p.layer], bottoms[p.layer]) for p in way[1:-1])
            for edge, way in ways.items()
        },
        (round(right - left, 1), top - _LAYER_GAP + _MARGIN if rows else 0.0),
    )


def _assign_layers(
    keys: Sequence[str], edges: Iterable[Edge]
) -> tuple[dict[str, int], tuple[Edge, ...]]:
    """Returns the layer of each box, and the edges that don't close a cycle. A box is below the
    boxes that are its inputs.

    Closed composites can depend on each other. In each cycle, the function removes the edge that
    leads furthest back.
    """
    at = {key: number for number, key in enumerate(keys)}
    above: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in edges:
        above[target].append(source)
    while True:
        try:
            order = tuple(TopologicalSorter(above).static_order())
            break
        except CycleError as error:
            cycle = pairwise(error.args[1])
            source, target = max(cycle, key=lambda edge: at[edge[0]] - at[edge[1]])
            above[target].remove(source)
    found: dict[str, int] = {}
    for key in order:
        found[key] = max((found[one] + 1 for one in above[key]), default=0)
    ahead = tuple((source, target) for target in keys for source in above[target])
    return {key: found[key] for key in keys}, ahead


def _make_edge_items(source: _LayerItem, target: _LayerItem) -> tuple[_LayerItem, ...]:
    passing = (
        _LayerItem(layer, source.key, _OF_PASSING / 2, target.key)
        for layer in range(source.layer + 1, target.layer)
    )
    return (source, *passing, target)


def _group_by_layer(places: Iterable[_LayerItem]) -> list[list[_LayerItem]]:
    """Returns the content of each layer."""
    rows: dict[int, list[_LayerItem]] = defaultdict(list)
    for place in places:
        rows[place.layer].append(place)
    return [rows[layer] for layer in range(len(rows))]


def _compute_middles(
    rows: list[list[_LayerItem]], ways: Iterable[Sequence[_LayerItem]]
) -> dict[_LayerItem, float]:
    """Computes the horizontal center of each box, and sorts each row from left to right.

    The function alternately moves each box to the mean position of its neighbours above and below,
    which reduces crossings of edges.
    """
    above, below = (
        defaultdict[_LayerItem, list[_LayerItem]](list),
        defaultdict[_LayerItem, list[_LayerItem]](list),
    )
    for way in ways:
        for upper, lower in pairwise(way):
            below[upper].append(lower)
            above[lower].append(upper)
    middles = dict[_LayerItem, float]()
    for row in rows:
        _place_items_with_gaps(row, [0.0] * len(row), middles)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        connected = above if down else below
        for row in rows if down else reversed(rows):
            wanted = {
                place: mean(middles[one] for one in connected[place] or (place,)) for place in row
            }
            row.sort(key=wanted.__getitem__)
            _place_items_with_gaps(row, [wanted[place] for place in row], middles)
    return middles


def _place_items_with_gaps(
    row: Sequence[_LayerItem], wanted: Sequence[float], middles: dict[_LayerItem, float]
) -> None:
    """Moves the boxes of a row near their wanted positions, in order, with gaps between the boxes.

    The result is the mean of two passes, one that pushes from the left and one that pushes from the
    right.
    """
    rooms = [
        one.half + next_.half + (_OF_PASSING if one.to and next_.to else _BETWEEN)
        for one, next_ in pairwise(row)
    ]
    from_left, from_right = list(wanted), list(wanted)
    for at, room in enumerate(rooms):
        from_left[at + 1] = max(from_left[at + 1], from_left[at] + room)
    for at in range(len(rooms) - 1, -1, -1):
        from_right[at] = min(from_right[at], from_right[at + 1] - rooms[at])
    middles.update(zip(row, map(mean, zip(from_left, from_right, strict=True)), strict=True))
