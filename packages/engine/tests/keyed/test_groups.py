from __future__ import annotations

import gc
import pickle

import pytest
from beam_runner_model.panes import NO_FIRING, ONLY_FIRING
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.triggers import Always
from beam_runner_model.window_coders import encode_window
from beam_runner_model.windows import GLOBAL_WINDOW

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane, WindowPanes
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore

ONE = WindowPane(b"k", b"w", 1, NO_FIRING, (b"1",))
TWO = WindowPane(b"k", b"v", 2, ONLY_FIRING, (b"2", b"3"))


def both() -> WindowPanes:
    groups = WindowPanes()
    groups.append_pane(*ONE)
    more = WindowPanes()
    more.append_pane(*TWO)
    groups += more
    return groups


def test_window_panes_behave_like_a_sequence() -> None:
    groups = both()
    assert list(groups) == [ONE, TWO] == groups[:]
    assert groups == both() == [ONE, TWO] != [TWO, ONE]
    assert (len(groups), groups[0], groups[-1]) == (2, ONE, TWO)
    assert TWO in groups and all(type(group) is WindowPane for group in groups)
    assert [*groups, ONE].count(ONE) == 2
    assert not WindowPanes()
    with pytest.raises(IndexError):
        groups[2]


def test_window_panes_expose_their_columns() -> None:
    groups = both()
    assert groups.windows == [b"w", b"v"]
    assert groups.values == [(b"1",), (b"2", b"3")]


def test_window_panes_have_a_repr_and_can_be_pickled() -> None:
    groups = both()
    assert repr(groups) == f"Groups([{ONE}, {TWO}])"
    assert list(pickle.loads(pickle.dumps(groups))) == [ONE, TWO]


def test_window_panes_create_few_objects_for_the_garbage_collector() -> None:
    count = 4_000
    window = encode_window(GLOBAL_WINDOW)

    def panes() -> WindowPanes:
        grouper = TriggeredGrouper(WindowingStrategy(trigger=Always()), MemoryCellStore())
        columns = [b"%d" % n for n in range(count)], [window] * count, [0] * count, [b"v"] * count
        return grouper.process_elements(*columns, CurrentTimes(0))

    panes()  # Create cached objects before the measurement.
    gc.collect()
    before = len(gc.get_objects())
    groups = panes()
    gc.collect()
    assert len(groups) == count
    assert len(gc.get_objects()) - before < 100
