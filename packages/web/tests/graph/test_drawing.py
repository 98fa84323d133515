from __future__ import annotations

from beam_runner_web.graph.drawing import StepPosition, StepShape, lay_out_graph


def step(key: str, parent: str = "", lines: int = 1, *, is_open: bool = False) -> StepShape:
    return StepShape(key, parent, lines, is_open)


def within(inner: StepPosition, outer: StepPosition) -> bool:
    across = outer.x < inner.x and inner.x + inner.width < outer.x + outer.width
    return across and outer.y < inner.y and inner.y + inner.height < outer.y + outer.height


def test_graph_drawing_of_chain_goes_downwards() -> None:
    shapes = (step("a"), step("b", lines=2), step("c"))
    boxes = lay_out_graph(shapes, (("a", "b"), ("b", "c"))).boxes
    assert [box.x for box in boxes] == [boxes[0].x] * 3
    assert [box.y for box in boxes] == sorted(box.y for box in boxes)
    assert boxes[1].height > boxes[0].height


def test_graph_edge_across_layers_bends_around_nodes() -> None:
    found = lay_out_graph(tuple(map(step, "abc")), (("a", "b"), ("b", "c"), ("a", "c")))
    middle = found.boxes[1]
    at = float(found.lines[2].path.split("C")[1].split(" ")[2].split(",")[0])
    assert not middle.x <= at <= middle.x + middle.width


def test_graph_drawing_includes_cyclic_edges() -> None:
    assert len(lay_out_graph(tuple(map(step, "ab")), (("a", "b"), ("b", "a"))).lines) == 2


def test_empty_graph_draws_no_lines() -> None:
    assert lay_out_graph((), ()).boxes == ()


def test_graph_drawing_has_parts_inside_their_composite() -> None:
    shapes = (
        *(step("before"), step("outer", is_open=True), step("inner", "outer", is_open=True)),
        *(step("part", "inner"), step("beside", "outer"), step("after")),
    )
    edges = (("before", "part"), ("part", "beside"), ("beside", "after"), ("before", "after"))
    before, outer, inner, part, beside, after = lay_out_graph(shapes, edges).boxes
    assert within(part, inner) and within(inner, outer) and within(beside, outer)
    assert not within(beside, inner)
    assert before.y + before.height < outer.y
    assert outer.y + outer.height < after.y


def test_graph_edge_between_parts_of_composites_connects_the_parts() -> None:
    shapes = (
        *(step("a", is_open=True), step("a1", "a"), step("a2", "a"), step("b", is_open=True)),
        step("b1", "b"),
    )
    found = lay_out_graph(shapes, (("a1", "b1"),))
    source, target = found.boxes[1], found.boxes[4]
    (line,) = found.lines
    assert line.path.startswith(
        f"M{source.x + source.width / 2:.1f},{source.y + source.height:.1f}"
    )
    assert line.path.endswith(f"{target.x + target.width / 2:.1f},{target.y - 5:.1f}")
