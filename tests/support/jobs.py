"""Pipelines for the tested server, and their results."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobMessage, JobState

JOB_SECONDS = 240.0


def pickle_by_value(module_name: str) -> None:
    """Pickles a test module's functions by value, like functions of ``__main__``.

    Embedded workers can't import the tests.
    """
    cloudpickle.register_pickle_by_value(sys.modules[module_name])


@attrs.frozen
class Job:
    """Job that a test has submitted to the server, with its result."""

    address: str
    job_id: str
    result: Any

    def wait(self, seconds: float = JOB_SECONDS) -> JobState:
        """Waits for the terminal state, and stops the LOOPBACK workers in this process."""
        with JobClient(self.address) as client:
            state = client.wait_until_finish(self.job_id, seconds)
        self.result._cleanup()
        return state

    def wait_for(self, state: JobState, seconds: float = 60.0) -> None:
        """Waits until the job is, or has been, in a state."""
        with JobClient(self.address) as client:
            for event in client.follow_states(self.job_id, seconds):
                if event.state is state:
                    return
        raise AssertionError(f"{self.job_id} ended and was never {state.name}")

    def state(self) -> JobState:
        """Current state of the job."""
        with JobClient(self.address) as client:
            return client.get_state(self.job_id).state

    def messages(self, seconds: float = JOB_SECONDS) -> list[JobMessage]:
        """Waits for the end of the job and returns all its messages."""
        with JobClient(self.address) as client:
            return [
                m for m in client.follow_messages(self.job_id, seconds) if isinstance(m, JobMessage)
            ]

    def cancel(self) -> None:
        """Requests the cancellation of the job."""
        with JobClient(self.address) as client:
            client.cancel_job(self.job_id)

    def cancel_and_measure(self) -> tuple[JobState, float]:
        """Cancels the job; returns its terminal state and the elapsed seconds."""
        started = time.monotonic()
        self.cancel()
        state = self.wait(60)
        return state, time.monotonic() - started

    def metric(self, kind: str, name: str) -> tuple[Any, Any]:
        """Returns the (committed, attempted) value of a metric, summed over transforms.

        Args:
            kind: ``counters``, ``distributions``, ``gauges``, ``string_sets`` or ``bounded_tries``.
            name: name of the metric; the result is (None, None) while the metric is unknown.
        """
        self.result._metrics = None  # Beam's client caches the first response
        found = [m for m in self.result.metrics().query()[kind] if m.key.metric.name == name]
        if not found:
            return None, None
        assert len(found) == 1, found
        return found[0].committed, found[0].attempted

    def counter(self, name: str) -> int:
        """Returns the committed value of a counter; 0 if it doesn't exist."""
        return self.metric("counters", name)[0] or 0


class Pipelines:
    """Factory of pipelines for one server and one environment.

    Attributes:
        environment: name of the environment in tests.
    """

    def __init__(self, address: str, environment: str, flags: Sequence[str]) -> None:
        self.address = address
        self.environment = environment
        self._flags = tuple(flags)

    def new(self, *flags: str, runner: Any = None) -> beam.Pipeline:
        """Returns a pipeline, with Beam's portable runner or another runner. The exit of its ``with``
        block runs it and waits.
        """
        return beam.Pipeline(
            runner=runner,
            options=PipelineOptions(
                [
                    "--runner=PortableRunner",
                    f"--job_endpoint={self.address}",
                    *self._flags,
                    *flags,
                ]
            ),
        )

    def job(self, pipeline: beam.Pipeline) -> Job:
        """Submits a pipeline to the server, and returns its job."""
        result = pipeline.run()
        return Job(self.address, result._job_id, result)


def timestamped(pairs: Sequence[tuple[Any, float]], element_type: Any = Any) -> beam.PTransform:
    """Returns a source of values with event times (s), given as pairs."""
    return beam.Create(list(pairs)) | beam.Map(
        lambda pair: TimestampedValue(pair[0], pair[1])
    ).with_output_types(element_type)
