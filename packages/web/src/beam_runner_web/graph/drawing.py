"""Layout of a pipeline graph: positions of steps (composites contain their parts), and a line for
each edge.

The layout starts with the innermost composites. The direct parts of a composite are arranged as a
separate graph.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence

import attrs

from .layers import Edge, LayerLayout, Size, arrange_boxes_in_layers

_WIDTH = 216
_HEAD = 28
_LINE = 16
_FOOT = 10


@attrs.frozen
class StepShape:
    """Input of the layout: a step to draw.

    The fields of a step are the id, the enclosing step (empty for none), the number of text lines below the
    name, and whether the parts of the step are drawn inside it.
    """

    key: str
    parent: str
    lines: int
    open: bool


@attrs.frozen
class StepPosition:
    """The position of a step in the drawing."""

    x: float
    y: float
    width: float
    height: float


@attrs.frozen
class EdgePath:
    """An edge as an SVG path. The label of the edge is at `x`, `y`."""

    path: str
    x: float
    y: float


@attrs.frozen
class GraphLayout:
    """Boxes and lines of a drawing with `width` and `height`, in the order of the input of `lay_out_graph`."""

    boxes: tuple[StepPosition, ...]
    lines: tuple[EdgePath, ...]
    width: float
    height: float


@functools.lru_cache(maxsize=64)
def lay_out_graph(shapes: tuple[StepShape, ...], edges: tuple[Edge, ...]) -> GraphLayout:
    """Returns the layout of steps and of edges between closed steps. Each composite must come before
    its parts.

    The function caches layouts, because metrics change more often than the graph.
    """
    return _GraphLayouter(shapes, edges).lay_out_graph()


class _GraphLayouter:
    def __init__(self, shapes: Sequence[StepShape], edges: Sequence[Edge]) -> None:
        self._shapes = shapes
        self._edges = edges
        self._inside: dict[str, list[StepShape]] = defaultdict(list)
        ways: dict[str, tuple[str, ...]] = {"": ()}
        for shape in shapes:
            self._inside[shape.parent].append(shape)
            ways[shape.key] = (*ways[shape.parent], shape.key)
        self._lifted = {
            edge: _find_common_composite(ways[edge[0]], ways[edge[1]]) for edge in edges
        }
        self._between: dict[str, list[Edge]] = defaultdict(list)
        for parent, lifted in self._lifted.values():
            self._between[parent].append(lifted)
        self._layers: dict[str, LayerLayout] = {}
        self._sizes: dict[str, Size] = {}

    def lay_out_graph(self) -> GraphLayout:
        self._lay_out_parts("")
        boxes: dict[str, StepPosition] = {}
        origins = {"": (0.0, 0.0)}
        for shape in self._shapes:
            x, y = self._layers[shape.parent].corners[shape.key]
            left, top = origins[shape.parent]
            boxes[shape.key] = StepPosition(left + x, top + y, *self._sizes[shape.key])
            origins[shape.key] = left + x, top + y + _HEAD
        lines = []
        for source, target in self._edges:
            parent, lifted = self._lifted[source, target]
            left, top = origins[parent]
            passing = [
                (left + x, top + upper, top + lower)
                for x, upper, lower in self._layers[parent].passing.get(lifted, ())
            ]
            lines.append(_draw_edge(boxes[source], boxes[target], passing))
        return GraphLayout(tuple(boxes.values()), tuple(lines), *self._layers[""].size)

    def _lay_out_parts(self, parent: str) -> None:
        for shape in self._inside[parent]:
            if shape.open:
                self._lay_out_parts(shape.key)
                width, height = self._layers[shape.key].size
                self._sizes[shape.key] = width, _HEAD + height
            else:
                self._sizes[shape.key] = _WIDTH, _HEAD + max(1, shape.lines) * _LINE + _FOOT
        sizes = {shape.key: self._sizes[shape.key] for shape in self._inside[parent]}
        self._layers[parent] = arrange_boxes_in_layers(sizes, self._between[parent])


def _find_common_composite(source: Sequence[str], target: Sequence[str]) -> tuple[str, Edge]:
    """Returns the innermost composite that contains the start and the end of an edge, and the parts
    of this composite that the edge connects.

    `source` and `target` are the paths from the top of the pipeline to the ends of the edge.
    """
    parent = ""
    for one, other in zip(source, target, strict=False):
        if one != other:
            return parent, (one, other)
        parent = one
    raise AssertionError("an edge must connect two steps that don't contain each other")


def _draw_edge(
    source: StepPosition, target: StepPosition, passing: Sequence[tuple[float, float, float]]
) -> EdgePath:
    """Returns the SVG path of a line from the bottom of a box to the top of another box. `passing`
    are the points that the line passes in the rows of boxes between them.
    """
    x, y = source.x + source.width / 2, source.y + source.height
    end_x, end_y = target.x + target.width / 2, target.y
    bends = [*passing, (end_x, end_y - 5, end_y - 5)]
    text_x, text_y = (x + bends[0][0]) / 2, (y + bends[0][1]) / 2
    parts = [f"M{x:.1f},{y:.1f}"]
    for to_x, top, bottom in bends if end_y > y else bends[-1:]:
        bend = max(18.0, abs(top - y) / 2)
        parts.append(f"C{x:.1f},{y + bend:.1f} {to_x:.1f},{top - bend:.1f} {to_x:.1f},{top:.1f}")
        if bottom > top:
            parts.append(f"V{bottom:.1f}")
        x, y = to_x, bottom
    return EdgePath(" ".join(parts), round(text_x + 6, 1), round(text_y + 4, 1))
