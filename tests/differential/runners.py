"""Runs pipelines that were built from specs: several in one job, built once, on the oracle and on servers."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import apache_beam as beam
import attrs
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment, Environment
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobServicesError
from beam_runner_model.jobs import Importance, JobMessage, JobState
from build import build
from mortal import At
from rules import mended_oracle, of_the_oracle
from sink import Outputs, kept
from spec import Spec
from streams import StreamSpec

_JOB_SECONDS = 900.0
_ERROR = Importance.ERROR


class Refused(Exception):
    """Raised if a job fails, or can't be built; the text names the cause."""


@attrs.frozen
class Built:
    """Pipelines in the form that every runner gets.

    Attributes:
        proto: all pipelines in one proto, for the environment of the oracle.
        folder: folder of the outputs.
        read: function that reads the outputs.
    """

    proto: Any
    folder: Path
    read: Callable[[Path], Outputs] = kept

    def outputs(self) -> Outputs:
        """Returns and removes the written outputs, so that the next runner can run the pipelines."""
        outputs = self.read(self.folder)
        for file in self.folder.iterdir():
            file.unlink()
        return outputs

    def in_environment(self, options: PipelineOptions) -> Any:
        """Returns the proto for the environment of the options."""
        proto = beam_runner_api_pb2.Pipeline()
        proto.CopyFrom(self.proto)
        named: Any = PortableRunner().default_environment(options)
        for environment in proto.components.environments.values():
            hints = dict(environment.resource_hints)
            environment.CopyFrom(Environment.to_runner_api(named, None))
            environment.resource_hints.update(hints)
        return proto


class Runner(Protocol):
    """Runner of pipelines in one job."""

    def run(self, built: Built) -> Outputs:
        """Runs the pipelines and returns all outputs; raises :class:`Refused` if the job fails."""


class _Keeper(PipelineRunner):
    """Runner that stores a pipeline and doesn't run it."""

    proto: Any = None

    def default_environment(self, options: PipelineOptions) -> Environment:
        return EmbeddedPythonEnvironment.default()

    def run_portable_pipeline(self, pipeline: Any, options: PipelineOptions) -> None:
        self.proto = pipeline


@contextmanager
def built(specs: Mapping[str, Spec]) -> Iterator[Built]:
    """Builds named pipelines; raises :class:`Refused` if Beam refuses them."""

    def add(pipeline: beam.Pipeline, folder: str) -> None:
        for name, spec in specs.items():
            build(pipeline, spec, name, folder)

    with built_by(add) as made:
        yield made


@contextmanager
def built_stream(spec: StreamSpec, name: str) -> Iterator[Built]:
    """Builds a script with its readers."""
    with built_by(lambda pipeline, folder: streams.build(pipeline, spec, name, folder)) as made:
        yield made


@contextmanager
def built_by(add: Callable[[beam.Pipeline, str], None]) -> Iterator[Built]:
    """Builds the pipeline of a function; raises :class:`Refused` if Beam refuses it."""
    with tempfile.TemporaryDirectory(prefix="differential") as folder:
        keeper = _Keeper()
        try:
            options = PipelineOptions(["--allow_unsafe_triggers"])
            pipeline = beam.Pipeline(runner=keeper, options=options)
            add(pipeline, folder)
            pipeline.run()
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        yield Built(keeper.proto, Path(folder))


@attrs.frozen
class Oracle:
    """Beam's FnApiRunner, in this process."""

    def run(self, built: Built) -> Outputs:
        proto = beam_runner_api_pb2.Pipeline()
        proto.CopyFrom(built.proto)
        try:
            with mended_oracle():
                FnApiRunner().run_via_runner_api(proto, PipelineOptions([]))
        except Exception as error:
            built.outputs()
            raise Refused(f"{type(error).__name__}: {error}") from error
        return {
            name: Counter(map(of_the_oracle, rows.elements()))
            for name, rows in built.outputs().items()
        }


@attrs.frozen
class Server:
    """Tested server.

    Attributes:
        address: address of its Job API.
        flags: pipeline options that name an environment.
    """

    address: str
    flags: Sequence[str]

    def run(self, built: Built) -> Outputs:
        return self._run(built)

    def run_stream(self, built: Built) -> Outputs:
        """Returns the outputs of a TestStream; raises :class:`Refused` if the job fails."""
        return self._run(built, "--streaming", "--allow_unsafe_triggers")

    def submit(self, built: Built, *flags: str) -> Any:
        """Runs it and returns Beam's result without waiting; raises :class:`Refused` if that fails."""
        options = PipelineOptions(
            [
                "--runner=PortableRunner",
                f"--job_endpoint={self.address}",
                # It would run pip for each job.
                "--experiments=disable_logging_submission_environment",
                *self.flags,
                *flags,
            ]
        )
        try:
            proto = built.in_environment(options)
            return PortableRunner().run_portable_pipeline(proto, options)
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def _run(self, built: Built, *flags: str) -> Outputs:
        result = self.submit(built, *flags)
        try:
            self._wait(result._job_id)
        except (JobServicesError, Refused) as error:
            built.outputs()
            raise Refused(str(error)) from error
        finally:
            result._cleanup()
        return built.outputs()

    def _wait(self, job_id: str) -> None:
        with JobClient(self.address) as client:
            state = client.wait_until_finish(job_id, _JOB_SECONDS)
            if state is JobState.DONE:
                return
            messages = client.follow_messages(job_id, _JOB_SECONDS)
            told = [
                m.text for m in messages if isinstance(m, JobMessage) and m.importance >= _ERROR
            ]
            raise Refused(f"the job is {state.name}: {' '.join(told)[-3000:]}")


@attrs.frozen
class Telling:
    """Runner that reports its name before each run, because a run may crash the process."""

    at: At
    name: str
    runner: Oracle | Server

    def run(self, built: Built) -> Outputs:
        self.at.tell(self.name)
        return self.runner.run(built)

    def run_stream(self, built: Built) -> Outputs:
        self.at.tell(self.name)
        assert isinstance(self.runner, Server), "the oracle of streams is another one"
        return self.runner.run_stream(built)
