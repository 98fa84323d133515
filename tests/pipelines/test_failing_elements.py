"""Tests that the error of a job names the element in process, if the environment knows the element."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from beam_runner_model.jobs import Importance, JobState
from job_server import job_server
from jobs import Job, Pipelines

CLOCK = userstate.TimerSpec("clock", TimeDomain.WATERMARK)
THREE = (3, "text 3")
ONE_OF = (
    r"one of the elements \d+ to \d+ of the bundle's input|the element \d+ of the bundle's input"
)


def fail_at_three(pair: Any) -> Any:
    if pair[0] == 3:
        raise ValueError("failed")
    return pair


class Unwritable:
    """Nothing can send that."""

    def __repr__(self) -> str:
        return "Unwritable"

    def __reduce__(self) -> Any:
        raise ValueError("not to be written")


class FailAtTheEnd(beam.CombineFn):
    def create_accumulator(self) -> str:
        return ""

    def add_input(self, accumulator: str, element: str) -> str:
        return element

    def merge_accumulators(self, accumulators: Any) -> str:
        return max(accumulators)

    def extract_output(self, accumulator: str) -> str:
        fail_at_three((int(accumulator[-1]), accumulator))
        return accumulator


class FailLater(beam.DoFn):
    def process(self, pair: Any, clock: Any = beam.DoFn.TimerParam(CLOCK)) -> None:
        clock.set(7)

    @userstate.on_timer(CLOCK)
    def ring(self, key: Any = beam.DoFn.KeyParam) -> None:
        fail_at_three((key, ""))


CASES = {
    "an element": (beam.Map(fail_at_three), r"\(3, 'text 3'\)"),
    "a result": (
        beam.Map(lambda pair: Unwritable() if pair == THREE else "fine") | beam.Reshuffle(),
        r"\(3, 'text 3'\) \(can't encode its output .*\)",
    ),
    "a key": (beam.CombinePerKey(FailAtTheEnd()), "the key 3"),
    "a timer": (
        beam.ParDo(FailLater()),
        r"the timer 'clock' of the key 3, due at Timestamp\(7\)",
    ),
}


def failed(pipelines: Pipelines, case: str) -> str:
    """Runs a job that fails, and returns its error."""
    transform, _ = CASES[case]
    pipeline = pipelines.new()
    pairs = pipeline | beam.Create([(n, f"text {n}") for n in range(5)]) | beam.Reshuffle()
    _ = pairs | transform
    job: Job = pipelines.job(pipeline)
    assert job.wait() is JobState.FAILED
    return [m.text for m in job.messages() if m.importance is Importance.ERROR][-1]


@pytest.mark.parametrize("case", CASES)
def test_failure_reports_the_element_in_process(pipelines: Pipelines, case: str) -> None:
    (line,) = re.findall("^The element: (.*)$", failed(pipelines, case), re.MULTILINE)
    _, embedded = CASES[case]
    if pipelines.environment == "embedded":
        assert re.fullmatch(embedded, line)
    elif case == "a timer":
        assert re.match(r"one of the \d+ timers|the timer 'clock' of the key ", line)
    else:
        # The SDK doesn't report the element. The error has the count of elements, or the bytes of a
        # single element.
        assert re.fullmatch(ONE_OF, line) or b"text 3".hex() in line


@pytest.fixture(scope="module")
def hiding(placement: tuple[str, ...]) -> Iterator[str]:
    """Yields the address of a server that hides elements."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), *placement, "--hide-elements") as running,
    ):
        yield running.address


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("environment", ["embedded", "LOOPBACK"])
def test_failure_omits_the_element_if_elements_are_hidden(
    hiding: str, flags_of: Callable[[str], list[str]], environment: str, case: str
) -> None:
    error = failed(Pipelines(hiding, environment, flags_of(environment)), case)
    assert "The element" not in error
    assert "text 3" not in error
