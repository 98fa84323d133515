"""Orders of things that depend on each other, found without recursion: pipelines may be of any depth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)


def after_those_needed(
    nodes: Iterable[_Node], needed: Callable[[_Node], Iterable[_Node]]
) -> Iterator[_Node]:
    """All nodes that can be reached, each after those it needs; linear in their number.

    Where nodes need each other in a circle, one of them comes too early.
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


def around_circles(
    nodes: Collection[_Node], needed: Callable[[_Node], Iterable[_Node]]
) -> set[_Node]:
    """The nodes in circles of need, or on a way from one circle to another; linear."""
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
