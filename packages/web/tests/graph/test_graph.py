from __future__ import annotations

from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_web.graph.graph import choose_open_composites, limit_graph_view, make_graph_view

from ..conftest import add_step, word_count


def tree() -> StepTree:
    return StepTree(describe_pipeline(word_count().SerializeToString()))


def pairs(found: StepTree, *opened: str) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in make_graph_view(found, opened).edges}


def test_graph_omits_root_composite_that_only_wraps_other_steps() -> None:
    assert tree().top == ("t0", "t3", "t4")


def test_graph_edges_connect_visible_steps() -> None:
    assert pairs(tree()) == {("t0", "t3"), ("t3", "t4")}
    assert pairs(tree(), "t0") == {("t1", "t2"), ("t2", "t3"), ("t3", "t4")}


def test_graph_opens_composites_around_failing_step() -> None:
    assert choose_open_composites(tree()) == frozenset()
    assert choose_open_composites(tree(), ["t2"]) == {"t0"}


def test_graph_edge_of_side_input_is_dashed() -> None:
    pipeline = word_count()
    add_step(pipeline, "side", "Side", {"main": "counts", "other": "lines"})
    from apache_beam.portability.api import beam_runner_api_pb2 as runner_api

    payload = runner_api.ParDoPayload()
    payload.side_inputs["other"].access_pattern.urn = "beam:side_input:iterable:v1"
    step = pipeline.components.transforms["side"]
    step.spec.payload = payload.SerializeToString()
    pipeline.components.transforms["root"].subtransforms.append("side")
    edges = make_graph_view(StepTree(describe_pipeline(pipeline.SerializeToString())), ()).edges
    assert {(e.source, e.side) for e in edges if e.target == "side"} == {
        ("t0", True),
        ("t3", False),
    }


@given(st.sets(st.sampled_from(["t0", "t1", "t3", "root", "none"])))
def test_graph_view_has_each_step_once_and_edges_only_between_closed_steps(
    opened: set[str],
) -> None:
    found = make_graph_view(tree(), opened)
    assert len(set(found.visible)) == len(found.visible)
    closed = set(found.visible) - found.opened
    assert all({edge.source, edge.target} <= closed for edge in found.edges)


def test_limited_graph_has_nearest_steps_in_both_directions() -> None:
    pipeline = word_count()
    for number in range(300):
        add_step(
            pipeline, f"s{number}", f"S{number}", {"in": f"p{number}"}, {"out": f"p{number + 1}"}
        )
        pipeline.components.transforms["root"].subtransforms.append(f"s{number}")
    view = make_graph_view(StepTree(describe_pipeline(pipeline.SerializeToString())), ())
    assert view.too_large
    found = limit_graph_view(view, "s150")
    assert not found.too_large
    numbers = [int(key[1:]) for key in found.visible]
    assert numbers == list(range(130, 170)) or numbers == list(range(131, 171))
    assert len(found.edges) == len(numbers) - 1
