"""Tests that the error about a pipeline above a limit names its size, the limit and the location."""

from __future__ import annotations

import attrs
import pytest

from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.graph import PCollectionNode, PipelineGraph, TransformNode
from beam_runner_jobservices.graph_checks import check_graph
from beam_runner_jobservices.sizes import PipelineLimits, find_exceeded_limits

SMALL = PipelineLimits(3, 3, 3, 3, 3, composites_deep=2, coders_deep=2, name_chars=5)
EMPTY = PipelineGraph((), {}, {}, {}, {}, frozenset())


def nested(levels):
    """Returns transforms each of which is the only part of the previous transform."""
    return {str(n): (str(n + 1),) if n + 1 < levels else () for n in range(levels)}


def composites(levels):
    parts = nested(levels)
    transforms = {key: TransformNode(f"T{key}", subtransforms=part) for key, part in parts.items()}
    return attrs.evolve(EMPTY, roots=("0",), transforms=transforms)


def test_pipeline_just_below_size_limit_is_accepted():
    graph = attrs.evolve(composites(2), coders=nested(2), environments=frozenset("abc"))
    assert not list(find_exceeded_limits(graph, SMALL))


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (
            attrs.evolve(composites(1), environments=frozenset("abcd")),
            "4 environments; the maximum is 3",
        ),
        (attrs.evolve(EMPTY, coders=dict.fromkeys("abcd", ())), "4 coders; the maximum is 3"),
        (composites(3), "the transform 'T0' has 3 levels of parts; the maximum is 2"),
        (
            attrs.evolve(EMPTY, coders=nested(3)),
            "the coder '0' has 3 levels of parts; the maximum is 2",
        ),
        (attrs.evolve(EMPTY, environments=frozenset(["abcdef"])), "'abcdef' has 6 characters"),
        (
            attrs.evolve(EMPTY, pcollections=dict.fromkeys("abcd", PCollectionNode("", ""))),
            "4 PCollections; the maximum is 3",
        ),
    ],
)
def test_pipeline_above_size_limit_is_refused_with_size_limit_and_location(graph, text):
    (excess,) = find_exceeded_limits(graph, SMALL)
    assert text in excess


def test_prepare_request_with_pipeline_above_size_limit_is_refused():
    with pytest.raises(InvalidRequest, match=r"too large: .* 60000 levels"):
        check_graph(composites(60_000))
    with pytest.raises(InvalidRequest, match="60000 transforms; the maximum is 30000"):
        check_graph(composites(60_000))
    shared = {str(n): (str(n + 1),) * 2 if n < 40 else () for n in range(41)}
    check_graph(attrs.evolve(EMPTY, coders=shared))


def test_transform_names_generated_by_beam_dataframes_are_within_size_limit():
    # A file with 300 columns, with which Beam itself reaches the limit of Python's stack.
    graph = attrs.evolve(EMPTY, transforms={"t": TransformNode("get_column" * 5_000)})
    assert not list(find_exceeded_limits(graph))
