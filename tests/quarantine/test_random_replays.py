"""Tests that random streams have the complete results after a correction and a replay."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.replays import ReplayProblem
from jobs import Pipelines, pickle_by_value
from poisoned_streams import DELAY, PoisonedStream, Step
from waiting import wait_until

ENDS = ("none", "state", "timer")
"""Last steps that don't drop late elements."""


class PoisonUntilFileExists(frozenset[int]):
    """Poisoned numbers of a step, which a file corrects."""

    path: Path

    @classmethod
    def create(cls, numbers: Iterable[int], path: Path) -> PoisonUntilFileExists:
        """Returns the numbers, which are poisoned until the file exists."""
        poison = cls(numbers)
        poison.path = path
        return poison

    def __contains__(self, number: object) -> bool:
        return super().__contains__(number) and not self.path.exists()


def make_stream(seed: int, corrected: Path) -> PoisonedStream:
    """Returns a random stream whose elements are poisoned until a file exists."""
    stream = PoisonedStream.from_seed(seed)
    # A number that occurs twice would set its timer twice.
    occurs_twice = any(step.kind == "twice" for step in stream.steps)
    ends = ENDS[:-1] if occurs_twice else ENDS

    def make_correctable(step: Step) -> Step:
        # A file can't correct the bytes that a coder fails to decode.
        kind = "encode" if step.kind == "decode" else step.kind
        return Step(kind, PoisonUntilFileExists.create(step.poisoned, corrected))

    # Timers of the last numbers fire only when the source continues.
    poisoned = frozenset(n for n in stream.end.poisoned if n < stream.count - 1 - DELAY)
    end = Step(ends[seed % len(ends)], poisoned)
    steps = tuple(map(make_correctable, stream.steps))
    return attrs.evolve(stream, steps=steps, end=make_correctable(end))


def expect_results(stream: PoisonedStream) -> list[Any]:
    """Returns the output after a replay of all poisoned elements; poisoned timers stay in quarantine."""
    steps = tuple(Step(step.kind, frozenset()) for step in stream.steps)
    lost = frozenset(stream.end.poisoned if stream.end.kind == "timer" else ())
    return attrs.evolve(stream, steps=steps, end=Step(stream.end.kind, lost)).expect()


def read_errors(folder: Path) -> set[str]:
    """Returns the error texts of all quarantined (failing) elements."""
    rows = [row for file in folder.rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return {row["error"].partition("Poison: ")[2] for row in rows}


def test_random_stream_has_the_complete_output_after_a_replay(
    streams: Pipelines, seed: int, tmp_path: Path
) -> None:
    folder, gate, corrected = tmp_path / "quarantine", tmp_path / "gate", tmp_path / "corrected"
    stream = make_stream(seed, corrected)
    pipeline = streams.new(f"--beam_spark_quarantine={folder}", *stream.flags())
    last = stream.count - 1
    assert_that(stream.build(pipeline, (last, gate)), equal_to(expect_results(stream)))
    job = streams.job(pipeline)
    before = attrs.evolve(stream, count=last).expect_errors()
    wait_until(
        lambda: read_errors(folder) >= before,
        90,
        lambda: f"{stream} lacks {before - read_errors(folder)}",
    )
    corrected.touch()
    with JobClient(job.address) as client:
        first = client.replay_quarantine(job.job_id, str(folder))
        again = client.replay_quarantine(job.job_id, str(folder))
    assert {one.problem for one in first.problems} <= {ReplayProblem.NOT_AN_ELEMENT}, stream
    assert (again.replayed, again.earlier) == (0, first.replayed)
    gate.touch()
    assert job.wait() is JobState.DONE, (stream, [message.text for message in job.messages()][-1])


pickle_by_value(__name__)
