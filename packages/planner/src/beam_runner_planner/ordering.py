"""Topological orders and cycles of graphs, found without recursion because pipelines can be very deep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)


def sort_by_dependencies(
    nodes: Iterable[_Node], needed: Callable[[_Node], Iterable[_Node]]
) -> Iterator[_Node]:
    """Returns all reachable nodes of a graph in topological order, in linear time.

    If nodes depend on each other in a cycle, one of them comes before a node that it depends on.
    """
    seen: set[_Node] = set()
    for start in nodes:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(needed(start)))]
        while path:
            node, others = path[-1]
            other = next((other for other in others if other not in seen), None)
            if other is None:
                path.pop()
                yield node
            else:
                seen.add(other)
                path.append((other, iter(needed(other))))


def find_nodes_around_cycles(
    nodes: Collection[_Node], needed: Callable[[_Node], Iterable[_Node]]
) -> set[_Node]:
    """Returns the nodes of a graph that are in cycles, or on paths from one cycle to another, in linear time."""
    forward = {node: set(needed(node)) for node in nodes}
    backward: dict[_Node, set[_Node]] = {node: set() for node in nodes}
    for node, others in forward.items():
        for other in others:
            backward[other].add(node)
    left = set(nodes)
    for edges, opposite in ((forward, backward), (backward, forward)):
        count = {node: len(edges[node] & left) for node in left}
        free = [node for node in left if not count[node]]
        while free:
            node = free.pop()
            left.discard(node)
            for other in opposite[node] & left:
                count[other] -= 1
                if not count[other]:
                    free.append(other)
    return left
