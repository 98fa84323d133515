from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_web.graph.layers import LayerLayout, arrange_boxes_in_layers

SIZES = {str(key): (100.0 + 40 * (key % 3), 40.0 + 16 * (key % 4)) for key in range(12)}
_EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30)


def overlap(found: LayerLayout, one: str, other: str) -> bool:
    (x, y), (width, height) = found.corners[one], SIZES[one]
    (other_x, other_y), (other_width, other_height) = found.corners[other], SIZES[other]
    beside = x < other_x + other_width and other_x < x + width
    return beside and y < other_y + other_height and other_y < y + height


def test_empty_graph_has_no_layers() -> None:
    assert arrange_boxes_in_layers({}, []).corners == {}


@given(_EDGES)
def test_graph_boxes_do_not_overlap_and_stay_inside_graph(pairs: list[tuple[int, int]]) -> None:
    found = arrange_boxes_in_layers(
        SIZES, [(str(one), str(other)) for one, other in pairs if one != other]
    )
    assert found.corners.keys() == SIZES.keys()
    for key, (x, y) in found.corners.items():
        assert x >= 0 and x + SIZES[key][0] <= found.size[0] + 0.2
        assert y >= 0 and y + SIZES[key][1] <= found.size[1]
        assert not any(overlap(found, key, other) for other in SIZES if other > key)


@given(_EDGES)
def test_graph_edges_point_down_without_cycle(pairs: list[tuple[int, int]]) -> None:
    edges = [(str(one), str(other)) for one, other in pairs if one < other]
    corners = arrange_boxes_in_layers(SIZES, edges).corners
    assert all(corners[one][1] + SIZES[one][1] < corners[other][1] for one, other in edges)
