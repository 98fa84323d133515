"""Tests that a failing user function fails its job, and that the error names step, cause and location."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_model.jobs import Importance, JobState
from job_server import JobServerProcess
from jobs import Pipelines


class OddlyNamedError(Exception):
    """An exception that exists nowhere but here."""


def burst(text: str) -> None:
    raise OddlyNamedError(text)


class FailIn(beam.DoFn):
    """DoFn that fails in one of its methods."""

    def __init__(self, method: str) -> None:
        self._method = method

    def setup(self) -> None:
        self._maybe_fail("setup")

    def start_bundle(self) -> None:
        self._maybe_fail("start_bundle")

    def process(self, element: int) -> Iterator[int]:
        yield element
        if element == 3:
            self._maybe_fail("process")

    def finish_bundle(self) -> None:
        self._maybe_fail("finish_bundle")

    def _maybe_fail(self, method: str) -> None:
        if method == self._method:
            burst(f"failed in {method}")


@pytest.mark.parametrize("method", ["setup", "start_bundle", "process", "finish_bundle"])
def test_dofn_method_that_raises_fails_the_job_with_its_error(
    pipelines: Pipelines, method: str
) -> None:
    pipeline = pipelines.new()
    numbers = pipeline | beam.Create(range(5))
    numbers | "Outer" >> Wrapped(method) | beam.Map(lambda n: (n, n)) | beam.GroupByKey()
    job = pipelines.job(pipeline)
    with pytest.raises(RuntimeError) as raised:
        job.result.wait_until_finish(60_000)
    for text in (str(raised.value), *[last_error(job)]):
        assert f"OddlyNamedError: failed in {method}" in text
        assert "Traceback (most recent call last)" in text
        assert "burst" in text  # the line of user code
        # Beam names no transform if setup fails, so the error names the stage.
        assert "Outer/Inner" in text
    assert job.state() is JobState.FAILED


def last_error(job: Any) -> str:
    return [m.text for m in job.messages() if m.importance is Importance.ERROR][-1]


class Wrapped(beam.PTransform):
    def __init__(self, method: str) -> None:
        super().__init__()
        self._method = method

    def expand(self, numbers: beam.PCollection) -> beam.PCollection:
        return numbers | "Inner" >> beam.ParDo(FailIn(self._method))


class FailingCombine(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        burst("failed in merge")
        return 0

    def extract_output(self, accumulator: int) -> int:
        return accumulator


def test_combine_function_that_raises_fails_the_job(pipelines: Pipelines) -> None:
    with (
        pytest.raises(RuntimeError, match="OddlyNamedError: failed in merge"),
        pipelines.new() as p,
    ):
        p | beam.Create([("k", 1), ("k", 2)]) | "Total" >> beam.CombinePerKey(FailingCombine())


def test_value_that_cannot_be_encoded_fails_the_job(pipelines: Pipelines) -> None:
    with pytest.raises(RuntimeError, match="Not bytes"), pipelines.new() as p:
        (
            p
            | beam.Create([1])
            | "Not bytes" >> beam.Map(lambda n: n).with_output_types(bytes)
            | beam.Reshuffle()
            | beam.Map(len)
        )


class Unpicklable:
    def __reduce__(self) -> Any:
        return burst, ("can't be unpickled",)


def test_function_that_cannot_be_loaded_fails_the_job(pipelines: Pipelines) -> None:
    unpicklable = Unpicklable()
    with pytest.raises(RuntimeError, match="can't be unpickled"), pipelines.new() as p:
        p | beam.Create([1]) | beam.Map(lambda n: (n, unpicklable))


def test_server_runs_a_job_after_failed_jobs(pipelines: Pipelines) -> None:
    with pytest.raises(RuntimeError), pipelines.new() as p:
        p | beam.Create([1]) | beam.Map(lambda n: n / 0)
    with pipelines.new() as p:
        p | beam.Create([1]) | beam.Map(lambda n: n / 1)


class FailBeside(beam.DoFn):
    """DoFn that fails at one element while another element is in process for minutes."""

    def __init__(self, begun: Path) -> None:
        self._begun = begun

    def process(self, element: int) -> None:
        if element:
            self._begun.touch()
            time.sleep(300)
        while not self._begun.exists():
            time.sleep(0.05)
        burst("failed beside")


def test_other_bundles_of_a_failed_job_stop_without_a_crash_report(
    embedded: Pipelines, server: JobServerProcess, tmp_path: Path
) -> None:
    logged = len(server.log)
    pipeline = embedded.new()
    pipeline | beam.Create([0, 1]) | beam.ParDo(FailBeside(tmp_path / "begun"))
    job = embedded.job(pipeline)
    assert job.wait() is JobState.FAILED
    assert "failed beside" in last_error(job)
    server.wait_until_idle()
    assert not [line for line in server.log[logged:] if "crashed" in line]


def test_process_exit_fails_the_job_after_retries_as_a_runner_error(embedded: Pipelines) -> None:
    """The server retries a bundle that kills its process a few times; then the job fails with this reason."""

    def die(_: int) -> None:
        os._exit(3)

    pipeline = embedded.new()
    pipeline | beam.Create([1]) | "Die" >> beam.Map(die)
    job = embedded.job(pipeline)
    assert job.wait() is JobState.FAILED
    assert "Die' failed 4 times outside of user code" in last_error(job)


def break_python(element: int) -> int:
    """Removes a resource that the threads of its process need."""
    vars(builtins)["len"] = None
    return element


def close_descriptors(element: int) -> int:
    """Closes whatever is open, as programs do that go into the background."""
    os.closerange(0, 4096)
    return element


@pytest.mark.parametrize("breaks", [break_python, close_descriptors])
def test_user_code_that_breaks_its_process_fails_its_job(
    embedded: Pipelines, breaks: Callable[[int], int]
) -> None:
    pipeline = embedded.new()
    pipeline | beam.Create([1]) | "Break" >> beam.Map(breaks) | beam.Reshuffle()
    job = embedded.job(pipeline)
    assert job.wait(120) is JobState.FAILED
    assert "Break' failed 4 times" in job.messages()[-1].text


def test_error_that_cannot_be_encoded_fails_the_job(pipelines: Pipelines) -> None:
    pipeline = pipelines.new()
    pipeline | beam.Create([1]) | "Fail" >> beam.Map(lambda n: burst(f"half a pair: \ud800 {n}"))
    job = pipelines.job(pipeline)
    assert job.wait(120) is JobState.FAILED
    text = job.messages()[-1].text
    # Over LOOPBACK, the SDK of another program can't send the error, and continues without a
    # message.
    known = (
        "half a pair: \\ud800 1"
        if pipelines.environment == "embedded"
        else "stopped processing the bundle"
    )
    assert known in text
    assert "Fail" in text
