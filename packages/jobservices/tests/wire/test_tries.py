"""Bounded tries of Beam's metrics are decoded as Beam decodes them."""

from __future__ import annotations

from apache_beam.metrics.cells import BoundedTrieData

from beam_runner_jobservices.wire.tries import decode_bounded_trie


def _decode(data: BoundedTrieData) -> set[tuple[str | bool, ...]]:
    paths = decode_bounded_trie(data.to_proto().SerializeToString())
    return {(*path.segments, path.is_truncated) for path in paths}


def test_bounded_trie_with_one_path_is_decoded() -> None:
    assert _decode(BoundedTrieData(singleton=("file:", "/", "a"))) == {("file:", "/", "a", False)}


def test_empty_bounded_trie_has_no_path() -> None:
    assert _decode(BoundedTrieData()) == set()


def test_truncated_bounded_trie_has_same_paths_as_in_beam() -> None:
    for bound in (2, 100):
        data = BoundedTrieData(bound=bound)
        for path in (("a:", "b/", "c"), ("a:", "b/", "d"), ("a:", "e"), ("f:",)):
            data = data.combine(BoundedTrieData(singleton=path, bound=bound))
        assert _decode(data) == set(map(tuple, data.flattened()))
