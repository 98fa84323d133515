"""Tests of the check of submitted pipelines."""

from __future__ import annotations

import attrs
import pytest

from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.graph import (
    PCollectionNode,
    PipelineGraph,
    TransformNode,
    WindowingNode,
)
from beam_runner_jobservices.graph_checks import check_graph

GOOD = PipelineGraph(
    roots=("top",),
    transforms={
        "top": TransformNode("Top", subtransforms=("read", "do")),
        "read": TransformNode("Top/Read", outputs={"out": "lines"}),
        "do": TransformNode(
            "Top/Do",
            inputs={"in": "lines", "side": "lines"},
            outputs={"out": "words"},
            environment_id="env",
            payload_coder_ids=("kv",),
            side_input_tags=("side",),
        ),
    },
    pcollections={"lines": PCollectionNode("bytes", "w"), "words": PCollectionNode("kv", "w")},
    windowings={"w": WindowingNode("bytes", "env")},
    coders={"bytes": (), "kv": ("bytes", "bytes")},
    environments=frozenset({"env"}),
)


def changed(**changes):
    """Returns GOOD with replaced entries in its mappings."""
    return attrs.evolve(
        GOOD, **{field: {**getattr(GOOD, field), **entries} for field, entries in changes.items()}
    )


def test_pipeline_check_accepts_valid_and_empty_pipelines():
    without_transforms = attrs.evolve(GOOD, roots=(), transforms={})
    empty = PipelineGraph((), {}, {}, {}, {}, frozenset())
    assert [check_graph(graph) for graph in (GOOD, without_transforms, empty)] == [None] * 3


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (attrs.evolve(GOOD, roots=()), "no root transform"),
        (attrs.evolve(GOOD, roots=("gone",)), "root transform 'gone'"),
        (attrs.evolve(GOOD, roots=("top", "do")), r"'Top/Do' \(id 'do'\) occurs 2 times"),
        (
            changed(transforms={"top": TransformNode("Top", subtransforms=("gone",))}),
            r"transform 'Top' \(id 'top'\) has the subtransform 'gone'",
        ),
        (
            changed(transforms={"do": TransformNode("Top/Do", inputs={"in": "gone"})}),
            "transform 'Top/Do' .* reads the PCollection 'gone' as 'in'",
        ),
        (
            changed(transforms={"do": TransformNode("Top/Do", outputs={"out": "gone"})}),
            "transform 'Top/Do' .* writes the PCollection 'gone' as 'out'",
        ),
        (
            changed(transforms={"do": TransformNode("Top/Do", environment_id="gone")}),
            "transform 'Top/Do' .* environment 'gone'",
        ),
        (
            changed(transforms={"do": TransformNode("Top/Do", payload_coder_ids=("gone",))}),
            "transform 'Top/Do' .* coder 'gone'",
        ),
        (
            changed(transforms={"do": TransformNode("Top/Do", side_input_tags=("gone",))}),
            "transform 'Top/Do' .* side input 'gone'",
        ),
        (
            changed(pcollections={"lines": PCollectionNode("gone", "w")}),
            "PCollection 'lines' has the coder 'gone'",
        ),
        (
            changed(pcollections={"lines": PCollectionNode("bytes", "gone")}),
            "PCollection 'lines' has the windowing strategy 'gone'",
        ),
        (changed(windowings={"w": WindowingNode("gone", "")}), "'w' has the window coder 'gone'"),
        (changed(windowings={"w": WindowingNode("", "gone")}), "'w' has the environment 'gone'"),
        (changed(coders={"kv": ("bytes", "gone")}), "coder 'kv' has the component coder 'gone'"),
        (changed(coders={"bytes": ("kv",)}), "coder '.*' contains itself"),
        (
            changed(transforms={"read": TransformNode("Top/Read", subtransforms=("top",))}),
            r"transform '.*' \(id .*\) contains itself",
        ),
    ],
)
def test_pipeline_problem_names_its_location(graph, text):
    with pytest.raises(InvalidRequest, match=text):
        check_graph(graph)


def test_pipeline_problems_are_counted_beyond_limit():
    broken = {f"t{n}": TransformNode(f"T{n}", inputs={"in": "gone"}) for n in range(20)}
    with pytest.raises(InvalidRequest, match="and 15 more problems"):
        check_graph(attrs.evolve(GOOD, transforms=broken, roots=("t0",)))


def test_deeply_nested_pipeline_does_not_exhaust_stack():
    depth = 20_000
    coders = {str(n): (str(n + 1),) for n in range(depth)} | {str(depth): ()}
    with pytest.raises(InvalidRequest, match="too large: the coder '0' has 20001 levels"):
        check_graph(attrs.evolve(GOOD, coders={**GOOD.coders, **coders}))
