from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_web.drawing import WIDTH, Box, drawing


def overlap(one: Box, other: Box) -> bool:
    beside = abs(one.x - other.x) < WIDTH
    return beside and one.y < other.y + other.height and other.y < one.y + one.height


def test_a_chain_is_drawn_downwards() -> None:
    found = drawing({"a": 1, "b": 2, "c": 1}, [("a", "b"), ("b", "c")])
    assert [box.x for box in found.boxes] == [found.boxes[0].x] * 3
    assert [box.y for box in found.boxes] == sorted(box.y for box in found.boxes)
    assert found.boxes[1].height > found.boxes[0].height


def test_an_edge_past_a_layer_goes_around_what_stands_there() -> None:
    found = drawing({"a": 1, "b": 1, "c": 1}, [("a", "b"), ("b", "c"), ("a", "c")])
    past = next(line for line in found.lines if line.source == "a" and line.target == "c")
    middle = next(box for box in found.boxes if box.key == "b")
    at = float(past.path.split("C")[1].split(" ")[2].split(",")[0])
    assert not middle.x <= at <= middle.x + WIDTH


def test_what_gives_to_each_other_is_drawn() -> None:
    found = drawing({"a": 1, "b": 1}, [("a", "b"), ("b", "a")])
    assert {(line.source, line.target) for line in found.lines} == {("a", "b"), ("b", "a")}


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawing({}, []).boxes == ()


_EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


@given(_EDGES)
def test_boxes_stand_beside_each_other_within_the_drawing(pairs: list[tuple[int, int]]) -> None:
    edges = [(str(one), str(other)) for one, other in pairs if one != other]
    found = drawing({str(key): key % 3 for key in range(12)}, edges)
    assert len(found.boxes) == 12
    assert len(found.lines) == len(set(edges))
    for at, box in enumerate(found.boxes):
        assert box.x >= 0 and box.x + WIDTH <= found.width + 0.2
        assert box.y >= 0 and box.y + box.height <= found.height
        assert not any(overlap(box, other) for other in found.boxes[at + 1 :])


@given(_EDGES)
def test_edges_go_down_where_there_is_no_cycle(pairs: list[tuple[int, int]]) -> None:
    edges = [(str(one), str(other)) for one, other in pairs if one < other]
    found = {box.key: box for box in drawing({str(key): 1 for key in range(12)}, edges).boxes}
    assert all(found[one].y + found[one].height < found[other].y for one, other in edges)
