"""`BeamSparkRunner`, which runs a pipeline on Spark from the program that builds it."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from apache_beam.options.pipeline_options import (
    DebugOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.pipeline import Pipeline
from apache_beam.runners.direct.direct_runner import DirectRunner
from apache_beam.runners.portability import portable_runner
from apache_beam.runners.portability.stager import Stager
from apache_beam.transforms.environments import Environment
from beam_runner_worker import main_classes

from beam_spark_executor.client.connecting import connect_to_job_service
from beam_spark_executor.client.displays import ProgressMode, make_progress_display
from beam_spark_executor.client.following import JobConnection
from beam_spark_executor.client.interrupts import describe_interrupt
from beam_spark_executor.client.main_classes import pickle_main_classes
from beam_spark_executor.client.options import BeamSparkOptions
from beam_spark_executor.client.pipeline_checks import check_producers
from beam_spark_executor.client.progress import JobProgress
from beam_spark_executor.client.recording import is_stream_recording
from beam_spark_executor.client.result import BeamSparkResult
from beam_spark_executor.client.servers import ExternalServer, get_server_for_options
from beam_spark_executor.client.submission import Submission

_NO_LIST = "disable_logging_submission_environment"


class BeamSparkRunner(portable_runner.PortableRunner):
    """A Beam runner for Apache Spark, with user code embedded in Spark's Python workers.

        with beam.Pipeline(runner=BeamSparkRunner()) as pipeline:
            ...

    The runner sends pipelines to the server at ``--job_endpoint``. Without that option, the runner
    starts a server on this machine, which also serves the program's later pipelines and ends with
    the program.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_interactive = False
        self._files: tempfile.TemporaryDirectory[str] | None = None

    def default_environment(self, options: PipelineOptions) -> Environment:
        """Returns the environment that the pipeline options request, with the classes of the program's main script."""
        try:
            with _skip_package_list(options):
                environment = super().default_environment(options)
        except RuntimeError as error:
            if not isinstance(failed := error.__cause__, subprocess.CalledProcessError):
                raise
            raise RuntimeError(
                "Can't build or download the packages of the pipeline: see the messages above of"
                f" {shlex.join(map(str, failed.cmd))} (exit code {failed.returncode})"
            ) from None
        classes = pickle_main_classes()
        if classes:
            self._files = tempfile.TemporaryDirectory(prefix="beam-spark-runner-")
            file = Path(self._files.name, main_classes.FILE_NAME)
            file.write_bytes(classes)
            artifact = Stager._create_file_stage_to_artifact(str(file), file.name)
            environment._artifacts = (*environment._artifacts, artifact)
        return environment

    def create_job_service(self, options: PipelineOptions) -> Submission:
        """Returns a client of the server that the pipeline options request; starts the server if needed."""
        server = get_server_for_options(options)
        timeout = options.view_as(PortableOptions).job_server_timeout
        service = connect_to_job_service(server.endpoint, timeout)
        return Submission(service, options, own_server=not isinstance(server, ExternalServer))

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> Any:
        """Runs a pipeline. Pipelines that record a stream for a notebook run in this program, with
        Beam's DirectRunner.
        """
        if self._is_interactive and is_stream_recording(pipeline):
            return DirectRunner().run_pipeline(pipeline, options)
        return super().run_pipeline(pipeline, options)

    def run_portable_pipeline(self, pipeline: Any, options: PipelineOptions) -> BeamSparkResult:
        """Submits a pipeline. Returns as soon as the server has accepted the pipeline; for an
        interactive pipeline, after its end.

        Raises:
            RuntimeError: the server refuses the pipeline or doesn't start, or an interactive
                pipeline fails; the text says why.
            ValueError: a transform reads a PCollection of another pipeline, or an option is wrong.
        """
        ours = options.view_as(BeamSparkOptions)
        try:
            return self._submit_pipeline(pipeline, options, ours)
        except (RuntimeError, ValueError) as error:
            # The text is for the user, so omit the frames of the runner.
            trace = error.__traceback__ if ours.beam_spark_verbose_errors else None
            raise error.with_traceback(trace) from error.__cause__

    def _submit_pipeline(
        self, pipeline: Any, options: PipelineOptions, ours: BeamSparkOptions
    ) -> BeamSparkResult:
        check_producers(pipeline)
        progress = JobProgress(
            make_progress_display(ProgressMode(ours.beam_spark_progress), sys.stderr)
        )
        with progress.show_phase("starting the job server"):
            server = get_server_for_options(options)
        is_given = isinstance(server, ExternalServer)
        waits_for = f"submitting to {server.endpoint}" if is_given else "waiting for Spark to start"
        with progress.show_phase(waits_for):
            result = super().run_portable_pipeline(pipeline, options)
        if self._files is not None:
            self._files.cleanup()  # the server has a copy
        timeout = options.view_as(PortableOptions).job_server_timeout
        address = JobConnection(server.endpoint, result._job_id, timeout, server.get_exit_reason)
        progress.show_submitted_job(address)
        interrupt = describe_interrupt(server, options, address.job_id)
        finished = BeamSparkResult(
            result, address, progress, interrupt, is_verbose=ours.beam_spark_verbose_errors
        )
        if self._is_interactive and not options.view_as(StandardOptions).streaming:
            finished.wait_until_finish()
        return finished

    def is_interactive(self) -> None:
        """Makes `run` wait for the end of bounded pipelines. Beam's `InteractiveRunner` calls this
        method.

        The InteractiveRunner reads a pipeline's recording as soon as the pipeline has started, so
        the recording must be complete then.
        """
        self._is_interactive = True

    def __enter__(self) -> BeamSparkRunner:
        """Returns the runner itself. Interactive Beam's session doesn't start or stop a server:
        servers run until the program ends.
        """
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


@contextlib.contextmanager
def _skip_package_list(options: PipelineOptions) -> Iterator[None]:
    """Prevents Beam's call of pip that lists the installed packages. The call takes 0.5 s, and only
    containers use the list.
    """
    if options.view_as(PortableOptions).environment_type:
        yield
        return
    debugging = options.view_as(DebugOptions)
    before = debugging.experiments
    debugging.experiments = [*(before or ()), _NO_LIST]
    try:
        yield
    finally:
        debugging.experiments = before
