"""Decoder of bounded tries, the format in which Beam's lineage metrics contain the names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from beam_runner_jobservices._protos import metrics_pb2


@attrs.frozen
class TriePath:
    """Path in a trie. `is_truncated` is whether Beam has dropped longer paths with this prefix."""

    segments: tuple[str, ...]
    is_truncated: bool


def decode_bounded_trie(payload: bytes) -> tuple[TriePath, ...]:
    """Returns the paths in the encoded payload of a metric.

    Raises:
        DecodeError: the payload isn't a trie.
    """
    trie = metrics_pb2.BoundedTrie.FromString(payload)
    if trie.singleton:
        return (TriePath(tuple(trie.singleton), False),)
    return tuple(_iterate_paths(trie.root, ())) if trie.HasField("root") else ()


def _iterate_paths(node: Any, above: tuple[str, ...]) -> Iterator[TriePath]:
    if node.truncated or not node.children:
        yield TriePath(above, node.truncated)
        return
    for segment, child in sorted(node.children.items()):
        yield from _iterate_paths(child, (*above, segment))
