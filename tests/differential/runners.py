"""Runs pipelines that were built of specs: several in one job, on the oracle or on the server."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import apache_beam as beam
import attrs
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from beam_runner_jobservices import JobClient, JobServicesError, JobState
from beam_runner_jobservices.records import Importance, JobMessage
from build import build
from rules import as_it_is, for_the_oracle
from sink import Outputs, kept
from spec import Spec
from streams import StreamSpec

_JOB_SECONDS = 900.0
_ERROR = Importance.ERROR


class Refused(Exception):
    """A job failed, or could not be built; the text says why."""


class Runner(Protocol):
    """Runs named pipelines in one job."""

    def run(self, specs: Mapping[str, Spec]) -> Outputs:
        """All outputs; raises :class:`Refused` if the job fails."""


@attrs.frozen
class Oracle:
    """Beam's FnApiRunner, in this process."""

    def run(self, specs: Mapping[str, Spec]) -> Outputs:
        with tempfile.TemporaryDirectory(prefix="differential") as folder:
            try:
                pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
                for name, spec in specs.items():
                    build(pipeline, spec, name, folder, for_the_oracle)
                pipeline.run().wait_until_finish()
            except Exception as error:
                raise Refused(f"{type(error).__name__}: {error}") from error
            return kept(Path(folder))


@attrs.frozen
class Server:
    """The server under test.

    Attributes:
        address: of its Job API.
        flags: what a user types to name an environment.
    """

    address: str
    flags: Sequence[str]

    def run(self, specs: Mapping[str, Spec]) -> Outputs:
        def add(pipeline: beam.Pipeline, folder: str) -> None:
            for name, spec in specs.items():
                build(pipeline, spec, name, folder, as_it_is)

        return self._run(add)

    def run_stream(self, spec: StreamSpec, name: str) -> Outputs:
        """What comes of a TestStream; raises :class:`Refused` if the job fails."""

        def add(pipeline: beam.Pipeline, folder: str) -> None:
            streams.build(pipeline, spec, name, folder)

        return self._run(add, "--streaming", "--allow_unsafe_triggers")

    def _run(self, add: Callable[[beam.Pipeline, str], None], *flags: str) -> Outputs:
        options = [
            "--runner=PortableRunner",
            f"--job_endpoint={self.address}",
            # It would run pip for each job.
            "--experiments=disable_logging_submission_environment",
            *self.flags,
            *flags,
        ]
        with tempfile.TemporaryDirectory(prefix="differential") as folder:
            try:
                pipeline = beam.Pipeline(options=PipelineOptions(options))
                add(pipeline, folder)
                result = pipeline.run()
            except Exception as error:
                raise Refused(f"{type(error).__name__}: {error}") from error
            try:
                self._wait(result._job_id)
            except JobServicesError as error:
                raise Refused(str(error)) from error
            finally:
                result._cleanup()
            return kept(Path(folder))

    def _wait(self, job_id: str) -> None:
        with JobClient(self.address) as client:
            state = client.wait_until_finish(job_id, _JOB_SECONDS)
            if state is JobState.DONE:
                return
            messages = client.messages(job_id, _JOB_SECONDS)
            told = [
                m.text for m in messages if isinstance(m, JobMessage) and m.importance >= _ERROR
            ]
            raise Refused(f"the job is {state.name}: {' '.join(told)[-3000:]}")
