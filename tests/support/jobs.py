"""Pipelines for the server under test, and what became of them."""

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
    """Sends a test module's own functions along with the pipeline, as those of ``__main__`` are.

    Embedded workers can't import the tests, and should not.
    """
    cloudpickle.register_pickle_by_value(sys.modules[module_name])


@attrs.frozen
class Job:
    """A job that was submitted."""

    address: str
    job_id: str
    result: Any

    def wait(self, seconds: float = JOB_SECONDS) -> JobState:
        """Waits for the terminal state, and stops what LOOPBACK has started in this process."""
        with JobClient(self.address) as client:
            state = client.wait_until_finish(self.job_id, seconds)
        self.result._cleanup()
        return state

    def wait_for(self, state: JobState, seconds: float = 60.0) -> None:
        """Waits until the job is, or has been, in a state."""
        with JobClient(self.address) as client:
            for event in client.states(self.job_id, seconds):
                if event.state is state:
                    return
        raise AssertionError(f"{self.job_id} ended and was never {state.name}")

    def state(self) -> JobState:
        """The present state."""
        with JobClient(self.address) as client:
            return client.state(self.job_id).state

    def messages(self, seconds: float = JOB_SECONDS) -> list[JobMessage]:
        """All messages of the job; waits for its end."""
        with JobClient(self.address) as client:
            return [m for m in client.messages(self.job_id, seconds) if isinstance(m, JobMessage)]

    def cancel(self) -> None:
        """Asks for the job's end."""
        with JobClient(self.address) as client:
            client.cancel(self.job_id)

    def cancel_and_measure(self) -> tuple[JobState, float]:
        """Cancels; the state it ends in, and the seconds until then."""
        started = time.monotonic()
        self.cancel()
        state = self.wait(60)
        return state, time.monotonic() - started

    def metric(self, kind: str, name: str) -> tuple[Any, Any]:
        """The (committed, attempted) value of the metric of that name, summed over transforms.

        Args:
            kind: ``counters``, ``distributions``, ``gauges``, ``string_sets`` or ``bounded_tries``.
            name: the metric's name; (None, None) while nobody has reported it.
        """
        self.result._metrics = None  # Beam's client asks once and keeps the answer
        found = [m for m in self.result.metrics().query()[kind] if m.key.metric.name == name]
        if not found:
            return None, None
        assert len(found) == 1, found
        return found[0].committed, found[0].attempted

    def counter(self, name: str) -> int:
        """The committed value of a counter; 0 if there is none."""
        return self.metric("counters", name)[0] or 0


class Pipelines:
    """Makes pipelines that run on one server in one kind of environment.

    Attributes:
        environment: its name in tests.
    """

    def __init__(self, address: str, environment: str, flags: Sequence[str]) -> None:
        self.address = address
        self.environment = environment
        self._flags = tuple(flags)

    def new(self, *flags: str, runner: Any = None) -> beam.Pipeline:
        """A pipeline, with a runner of one's own or Beam's; leaving its ``with`` block runs it and waits."""
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
        """Submits a pipeline."""
        result = pipeline.run()
        return Job(self.address, result._job_id, result)


def timestamped(pairs: Sequence[tuple[Any, float]], element_type: Any = Any) -> beam.PTransform:
    """A source of values at event times in seconds, given as pairs of both."""
    return beam.Create(list(pairs)) | beam.Map(
        lambda pair: TimestampedValue(pair[0], pair[1])
    ).with_output_types(element_type)
