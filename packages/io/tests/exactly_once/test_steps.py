"""Tests of the two steps of `WriteExactlyOnce`, each called as a runner calls it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from apache_beam.transforms.window import BoundedWindow, GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from toy_sink import StagingSink, ToySink, ToySystem

from beam_spark_io import patience
from beam_spark_io.exactly_once.batches import BatchElements, decode_batch
from beam_spark_io.exactly_once.committing import CommitBatches
from beam_spark_io.exactly_once.protocols import CommitConflict, SinkUnavailable

WINDOW = GlobalWindow()


class Cell:
    """State cell with bytes."""

    def __init__(self, value: bytes | None = None) -> None:
        self.value = value

    def read(self) -> bytes | None:
        return self.value

    def write(self, value: bytes) -> None:
        self.value = value


@pytest.fixture
def system() -> ToySystem:
    return ToySystem()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Records the pauses between attempts, and doesn't wait."""
    found: list[float] = []
    monkeypatch.setattr(patience, "_sleep", found.append)
    return found


def run_bundle(step: BatchElements, numbers: list[int]) -> list[tuple[int, list[Any]]]:
    step.start_bundle()
    emitted = [b for n in numbers for b in add(step, n)]
    emitted += step.finish_bundle()
    return [(shard, decode_batch(batch)) for shard, batch in (one.value for one in emitted)]


def add(step: BatchElements, number: int, window: BoundedWindow = WINDOW) -> list[WindowedValue]:
    return list(step.process(number, "run", Timestamp(number), window))


def start_commits(system: ToySystem, patience: float | None = None) -> CommitBatches:
    step = CommitBatches(ToySink(system), patience)
    step.setup()
    return step


def commit(step: CommitBatches, cell: Cell, *batches: list[int], shard: int = 0) -> list[Any]:
    content = [pickle.dumps([pickle.dumps(one) for one in batch]) for batch in batches]
    return list(step.process((shard, content[0] if len(content) == 1 else content), "run", cell))


def test_elements_of_bundle_are_batched_by_shard(system: ToySystem) -> None:
    step = BatchElements(ToySink(system), 100)
    assert sorted(run_bundle(step, [1, 2, 3, 4, 5])) == [(0, [2, 4]), (1, [1, 3, 5])]
    assert run_bundle(step, []) == []


def test_full_batch_is_emitted_before_the_bundle_ends(system: ToySystem) -> None:
    step = BatchElements(ToySink(system, 1), 2)
    step.start_bundle()
    assert [len(add(step, n)) for n in range(5)] == [0, 1, 0, 1, 0]


def test_batches_have_the_earliest_timestamp_of_their_bundle(system: ToySystem) -> None:
    step = BatchElements(ToySink(system, 1), 3)
    step.start_bundle()
    (full,) = [batch for time in (7, 3, 5, 9) for batch in add(step, time)]
    assert [one.timestamp for one in (full, *step.finish_bundle())] == [Timestamp(3)] * 2


@pytest.mark.parametrize("stages", [False, True])
def test_batches_have_elements_of_one_window(system: ToySystem, stages: bool) -> None:
    step = BatchElements((StagingSink if stages else ToySink)(system, 1), 100)
    step.start_bundle()
    first, second = IntervalWindow(0, 4), IntervalWindow(4, 8)
    for number in (1, 5, 2):
        add(step, number, first if number < 4 else second)
    found = {one.windows: (one.timestamp, one.value[1]) for one in step.finish_bundle()}
    assert {windows: time for windows, (time, _) in found.items()} == {(first,): 1, (second,): 5}
    batches = {windows: decode_batch(batch) for windows, (_, batch) in found.items()}
    expected = {(first,): [1, 2], (second,): [5]}
    assert batches == ({w: [tuple(n)] for w, n in expected.items()} if stages else expected)


def test_sink_writer_gets_elements_and_its_results_are_batched(system: ToySystem) -> None:
    step = BatchElements(StagingSink(system, 1), 100)
    assert run_bundle(step, [3, 4]) == [(0, [(3, 4)])]


def test_shard_number_out_of_range_is_refused(system: ToySystem) -> None:
    step = BatchElements(ToySink(system, 2), 100)
    step._sink.select_shard = lambda element: 2
    with pytest.raises(ValueError, match=r"ToySink.select_shard returned 2"):
        run_bundle(step, [1])


def test_repeated_bundle_commits_each_batch_once(system: ToySystem) -> None:
    cell = Cell()
    step = start_commits(system)
    commit(step, cell, [1, 2])
    # The first attempt dies after two commits, and the second attempt begins with the old state.
    first_attempt, second_attempt = Cell(cell.value), Cell(cell.value)
    for attempt in (first_attempt, second_attempt):
        assert [r.number for r in commit(start_commits(system), attempt, [3])] == [2]
        assert [r.number for r in commit(start_commits(system), attempt, [4])] == [3]
    assert system.elements == [1, 2, 3, 4]
    assert first_attempt.value == second_attempt.value


def test_batches_of_one_timer_firing_are_one_commit(system: ToySystem) -> None:
    (result,) = commit(start_commits(system), Cell(), [1], [2, 3])
    assert (result.number, result.result) == (1, 3)
    assert system.elements == [1, 2, 3]


@pytest.mark.parametrize("fails_to_close", [False, True])
def test_commit_to_unavailable_sink_is_retried_with_growing_pauses(
    system: ToySystem, pauses: list[float], fails_to_close: bool
) -> None:
    system.outages, system.fails_to_close = 9, fails_to_close
    commit(start_commits(system), Cell(), [1])
    assert system.elements == [1]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert system.closed == 9


def test_commit_of_bounded_job_to_unavailable_sink_fails_after_time_limit(
    system: ToySystem, pauses: list[float]
) -> None:
    system.outages = 2
    cell = Cell()
    with pytest.raises(SinkUnavailable, match="the toy is away"):
        commit(start_commits(system, patience=0.0), cell, [1])
    assert pauses == []
    assert cell.value is None


def test_commit_from_an_older_job_state_that_contradicts_the_mark_is_refused(
    system: ToySystem,
) -> None:
    step, cell, copy = start_commits(system), Cell(), Cell()
    for number in range(4):
        commit(step, cell, [number])
        copy = Cell(cell.value) if number == 1 else copy
    commit(start_commits(system), copy, [20])
    with pytest.raises(CommitConflict, match="other elements"):
        commit(start_commits(system), copy, [30])
    assert system.elements == [0, 1, 2, 3]
