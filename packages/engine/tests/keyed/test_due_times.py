"""Tests that an queue of due times is a sorted set within and across bundles, and reads
only the first entries.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.due_times import DueTimeQueue
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.testing.stores import MemoryCellStore

TIMES = st.integers(-3, 3)
REFERENCES = st.sampled_from([(b"a",), (b"a", b"b"), (b"", b"c"), (b"bb",), (b"\x00",)])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TIMES, REFERENCES),
        st.tuples(st.just("remove"), st.integers(0, 20)),
        st.tuples(st.just("pop"), TIMES),
        st.tuples(st.just("look"), st.integers(0, 4)),
        st.tuples(st.just("commit")),
    ),
    max_size=30,
)


@given(OPERATIONS)
def test_queue_of_due_times_behaves_like_a_sorted_set(operations: list[tuple[Any, ...]]) -> None:
    store = MemoryCellStore()
    cells = UncommittedCells(store)
    agenda = DueTimeQueue(cells, "~a")
    model: set[tuple[int, tuple[bytes, ...]]] = set()
    for operation in operations:
        match operation:
            case ("add", time, reference):
                if (time, reference) not in model:
                    agenda.add_entry(time, reference)
                    model.add((time, reference))
            case ("remove", number):
                if model:
                    entry = sorted(model)[number % len(model)]
                    agenda.remove_entry(*entry)
                    model.discard(entry)
            case ("pop", until):
                due = min((entry for entry in model if entry[0] <= until), default=None)
                assert agenda.pop_due_entry(until) == due
                if due is not None:
                    model.discard(due)
            case ("look", passed):
                for entry in sorted(model)[:passed]:
                    assert agenda.get_earliest_entry() == entry
                    agenda.hide_earliest_entry(*entry)
                assert agenda.get_earliest_entry() == next(iter(sorted(model)[passed:]), None)
                agenda.restore_hidden_entries()
            case _:
                agenda.save_changes()
                store.commit_deltas(cells.list_cell_deltas())
                cells = UncommittedCells(store)
                agenda = DueTimeQueue(cells, "~a")
        assert agenda.get_earliest_entry() == min(model, default=None)


def test_queue_of_due_times_reads_only_its_first_entries() -> None:
    store = MemoryCellStore()
    cells = UncommittedCells(store)
    agenda = DueTimeQueue(cells, "~a")
    for time in range(1000):
        agenda.add_entry(time, (b"%d" % time,))
    agenda.save_changes()
    store.commit_deltas(cells.list_cell_deltas())
    store.reads = 0
    agenda = DueTimeQueue(UncommittedCells(store), "~a")
    assert [agenda.pop_due_entry(4) for _ in range(6)] == [(t, (b"%d" % t,)) for t in range(5)] + [
        None
    ]
    assert store.reads <= 6


def test_due_time_added_and_removed_in_one_bundle_is_not_stored() -> None:
    cells = UncommittedCells(MemoryCellStore())
    agenda = DueTimeQueue(cells, "~a")
    agenda.reschedule_entry(None, 5, (b"x",))
    agenda.reschedule_entry(5, 6, (b"x",))
    agenda.reschedule_entry(6, None, (b"x",))
    agenda.save_changes()
    assert cells.list_cell_deltas() == {}
