"""Views of a pipeline's graph: the open composites, and the edges between visible steps."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

import attrs
from beam_runner_jobservices.figures.step_tree import StepTree

_FULL_VIEW = 25
_MOST_NODES = 200
_MOST_AROUND = 40
"""Number of steps in the part of a view that has too many steps."""


@attrs.frozen
class GraphEdge:
    """An edge for the PCollections from one visible step to another; `side` if all of them are side inputs."""

    source: str
    target: str
    pcollections: tuple[str, ...]
    side: bool = False


@attrs.frozen
class GraphView:
    """The visible part of a pipeline.

    Attributes:
        opened: the composites whose parts are visible.
        visible: the visible steps. An open composite precedes its parts.
        edges: the edges between visible steps that aren't open.
    """

    opened: frozenset[str]
    visible: tuple[str, ...]
    edges: tuple[GraphEdge, ...]

    @property
    def too_large(self) -> bool:
        """Whether the view has too many steps to be readable."""
        return len(self.visible) > _MOST_NODES


def choose_open_composites(tree: StepTree, must_see: Iterable[str] = ()) -> frozenset[str]:
    """Returns the composites that are open by default.

    The composites around the steps in `must_see` are open. Otherwise, the user's own steps are
    visible and closed. A pipeline with a single outermost step is opened until several steps are
    visible.
    """
    opened = {above for step in must_see for above in tree.list_ancestors(step)}
    level = list(tree.top)
    while len(level) < 3:
        inside = [key for key in level if tree.steps[key].children]
        more = sum(len(tree.steps[key].children) for key in inside)
        if not inside or more > _FULL_VIEW:
            break
        opened.update(inside)
        level = [child for key in inside for child in tree.steps[key].children]
    return frozenset(opened)


def make_graph_view(tree: StepTree, opened: Iterable[str]) -> GraphView:
    """Returns the visible graph for a set of open composites. A composite counts as open only if all
    composites around it are open.
    """
    wanted = {key for key in opened if key in tree.steps and tree.steps[key].children}
    seen: list[str] = []
    really: set[str] = set()
    pending = list(reversed(tree.top))
    while pending:
        key = pending.pop()
        seen.append(key)
        if key in wanted:
            really.add(key)
            pending += reversed(tree.steps[key].children)
    return GraphView(frozenset(really), tuple(seen), _find_edges(tree, frozenset(seen) - really))


def limit_graph_view(view: GraphView, focus: str) -> GraphView:
    """Returns the part of a view around a step: the nearest steps in both directions, without open
    composites.
    """
    neighbours: dict[str, list[str]] = defaultdict(list)
    for edge in view.edges:
        neighbours[edge.source].append(edge.target)
        neighbours[edge.target].append(edge.source)
    seen, pending = {focus: None}, deque([focus])
    while pending and len(seen) < _MOST_AROUND:
        for key in neighbours[pending.popleft()]:
            if key not in seen and len(seen) < _MOST_AROUND:
                seen[key] = None
                pending.append(key)
    edges = tuple(one for one in view.edges if one.source in seen and one.target in seen)
    return GraphView(frozenset(), tuple(key for key in view.visible if key in seen), edges)


def _find_edges(tree: StepTree, closed: frozenset[str]) -> tuple[GraphEdge, ...]:
    """Returns the edges between visible closed steps.

    Each PCollection connects its producer to its readers, both replaced by the visible steps that
    contain them.
    """
    producers = tree.producers
    shown: dict[str, str] = {}

    def find_visible_step(key: str) -> str:
        if key not in shown:
            shown[key] = next(
                (one for one in (key, *tree.list_ancestors(key)) if one in closed), ""
            )
        return shown[key]

    found: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for key, step in tree.steps.items():
        if step.children:
            continue
        target = find_visible_step(key)
        for tag, pcollection in step.description.inputs.items():
            source = find_visible_step(producers[pcollection]) if pcollection in producers else ""
            if source and target and source != target:
                is_side = tag in step.description.side_inputs
                known = found[source, target]
                known[pcollection] = known.get(pcollection, True) and is_side
    return tuple(
        GraphEdge(source, target, tuple(pcollections), all(pcollections.values()))
        for (source, target), pcollections in found.items()
    )
