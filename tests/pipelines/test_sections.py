"""Tests that stages of bounded data run together as one Spark job if the job requests it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Pipelines
from waiting import wait_until

ASKED = "--beam_spark_bulk=always"
PROMISED_SECONDS = 5.0


@pytest.fixture(params=["embedded", pytest.param("PROCESS", marks=pytest.mark.slow)])
def spanned(request: pytest.FixtureRequest, pipelines_in: Callable[[str], Pipelines]) -> Pipelines:
    """Returns pipelines in environments in which each Spark task of a section can have a separate
    SDK harness.
    """
    return pipelines_in(request.param)


@pytest.fixture
def sections(server: JobServerProcess, placement: tuple[str, ...]) -> Callable[[str], None]:
    """Checks that stages of a job ran as a section (one Spark job), or were refused without Spark."""

    def check(job_name: str) -> None:
        told = [line for line in server.log if f" job {job_name}-" in line and "section" in line]
        assert any("section of " in line and "attempt 1" in line for line in told)
        refused = any("no section, but bundles" in line for line in told)
        assert refused is ("--without-spark" in placement)

    return check


def test_section_with_a_tree_of_groupings_is_one_spark_job(
    spanned: Pipelines, sections: Callable[[str], None]
) -> None:
    name = f"tree-{spanned.environment.lower()}"
    with spanned.new(ASKED, f"--job_name={name}") as p:
        squares = p | "numbers" >> beam.Create(range(100)) | beam.Map(lambda n: (n % 5, n * n))
        sums = squares | beam.CombinePerKey(sum)
        names = p | "names" >> beam.Create([(n, f"n{n}") for n in range(4)])
        joined = (
            (sums, names)
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda key, sides: (key, [list(side) for side in sides]))
        )
        expected = [
            (key, [[sum(n * n for n in range(key, 100, 5))], [f"n{key}"] if key < 4 else []])
            for key in range(5)
        ]
        assert_that(joined, equal_to(expected))
    sections(name)


class AddUp(beam.DoFn):
    """The sum of all values of a key times a factor, once its window has ended."""

    VALUES = BagStateSpec("values", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[str, int],
        factor: int,
        values: Any = beam.DoFn.StateParam(VALUES),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        values.add(pair[1] * factor)
        end.set(10)

    @on_timer(END)
    def tell(
        self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)
    ) -> Iterator[tuple[str, int]]:
        yield key, sum(values.read())


def test_section_with_state_timers_and_side_inputs_gives_exact_results(
    spanned: Pipelines, sections: Callable[[str], None]
) -> None:
    name = f"state-{spanned.environment.lower()}"
    with spanned.new(ASKED, f"--job_name={name}") as p:
        factor = p | "factor" >> beam.Create([1, 2]) | beam.CombineGlobally(sum)
        pairs = p | beam.Create(range(60)) | beam.Map(lambda n: (f"k{n % 6}", n))
        sums = pairs | beam.ParDo(AddUp(), beam.pvalue.AsSingleton(factor))
        assert_that(sums, equal_to([(f"k{k}", 3 * sum(range(k, 60, 6))) for k in range(6)]))
    sections(name)


def fail(group: tuple[int, Iterable[int]]) -> None:
    raise ValueError(f"no {group[0]}")


def test_section_failure_in_user_code_names_the_step(spanned: Pipelines) -> None:
    with (
        pytest.raises(RuntimeError, match=r"ValueError: no 7 \[while running 'Raises'\]"),
        spanned.new(ASKED) as p,
    ):
        _ = p | beam.Create([(7, 1)]) | beam.GroupByKey() | "Raises" >> beam.Map(fail)


def test_section_with_a_killed_process_gives_exact_results(
    spanned: Pipelines, tmp_path: Path
) -> None:
    """The killed process is an SDK process with user code, or the worker. The job loses and duplicates nothing."""

    def die_once(group: tuple[int, Iterable[int]]) -> tuple[int, int]:
        try:
            (tmp_path / "died").touch(exist_ok=False)
        except FileExistsError:
            return group[0], sum(group[1])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("the process has exited")

    with spanned.new(ASKED) as p:
        groups = p | beam.Create([(n % 3, n) for n in range(30)]) | beam.GroupByKey()
        sums = groups | beam.Map(die_once)
        assert_that(sums, equal_to([(k, sum(range(k, 30, 3))) for k in range(3)]))
    assert (tmp_path / "died").exists()


def test_section_is_cancelled_within_five_seconds(
    spanned: Pipelines,
    server: JobServerProcess,
    tmp_path: Path,
    limit: Callable[[float], float],
) -> None:
    def sleep(group: tuple[int, Iterable[int]]) -> None:
        (tmp_path / "begun").touch()
        time.sleep(300)

    pipeline = spanned.new(ASKED)
    _ = pipeline | beam.Create([(7, 1)]) | beam.GroupByKey() | beam.Map(sleep)
    job = spanned.job(pipeline)
    wait_until((tmp_path / "begun").exists, 60, "user code is busy")
    state, seconds = job.cancel_and_measure()
    assert state is JobState.CANCELLED
    assert seconds < limit(PROMISED_SECONDS)
    server.wait_until_idle()
