"""Set-up of the current process for a job: pipeline options, staged files, main session, plugins and
logging.

The set-up does the first part of Beam's ``sdk_worker_main.create_harness``, before the harness
connects to services. In Beam this state is process-wide, so a process can serve only one job.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from apache_beam.internal import pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, SetupOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.runners.internal import names
from apache_beam.runners.worker import sdk_worker_main
from beam_runner_model.stages import Artifact, JobContext
from beam_runner_worker import main_classes
from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.missing_modules import add_missing_module_advice
from beam_runner_worker.ports import ArtifactReader, LogSink
from beam_runner_worker.prints import PrintCapture

from beam_runner_embedded.beam_versions import STAGED_DIRECTORY
from beam_runner_embedded.failures import describe_exception
from beam_runner_embedded.logs import LogSinkHandler
from beam_runner_embedded.main_module import MainModule


class ProcessSetup:
    """Process-wide set-up for a job; :meth:`close` reverts all changes.

    Args:
        artifacts: reads staged files.
        logs: receives all records that this process logs through Python's ``logging``.
        functions: returns the job's pickled functions, which may contain classes of the user's
            script.
        captures_prints: whether to replace ``sys.stdout`` and send lines that user code prints.

    Raises:
        BundleError: The pickled main session can't be loaded.
        HarnessError: a staged file is missing or damaged.
    """

    def __init__(
        self,
        job: JobContext,
        artifacts: ArtifactReader,
        logs: LogSink,
        functions: Callable[[], Iterable[bytes]] = tuple,
        *,
        captures_prints: bool = False,
    ) -> None:
        self.log_handler = LogSinkHandler(logs)
        root = logging.getLogger()
        self._prints = PrintCapture(sys.stdout, self.log_handler) if captures_prints else None
        self._stdout_before = sys.stdout
        self._level_before = root.level
        self._main_before = sys.modules["__main__"]
        self._directory = ""
        root.addHandler(self.log_handler)
        if self._prints is not None:
            sys.stdout = self._prints
        try:
            self.options = self._apply_options(job.options_json)
            self._write_staged_files(job, artifacts)
            self._load_main_session(job, functions)
            plugins = self.options.view_as(SetupOptions).beam_plugins or []
            sdk_worker_main._import_beam_plugins(plugins)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Undoes the set-up: removes the log handler and the staged files, and restores ``__main__`` and
        ``sys.stdout``; idempotent.
        """
        root = logging.getLogger()
        root.removeHandler(self.log_handler)
        root.setLevel(self._level_before)
        if self._prints is not None and sys.stdout is self._prints:
            sys.stdout = self._stdout_before
        self.log_handler.close()
        sys.modules["__main__"] = self._main_before
        if self._directory:
            staged = os.path.join(self._directory, STAGED_DIRECTORY)
            if staged in sys.path:
                sys.path.remove(staged)
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = ""

    def flush_output(self) -> None:
        """Sends everything that this thread has printed, and that this process has logged."""
        if self._prints is not None:
            self._prints.send_incomplete_line()
        self.log_handler.flush()

    def _apply_options(self, options_json: str) -> PipelineOptions:
        values = sdk_worker_main._load_pipeline_options(options_json or None)
        level = sdk_worker_main._get_log_level_from_options_dict(values)
        logging.getLogger().setLevel(level)
        sdk_worker_main._set_log_level_overrides(values)
        RuntimeValueProvider.set_runtime_options(values)
        options = PipelineOptions.from_dictionary(values)
        FileSystems.set_options(options)
        pickler.set_library(options.view_as(SetupOptions).pickle_library)
        return options

    def _write_staged_files(self, job: JobContext, artifacts: ArtifactReader) -> None:
        wanted = {
            artifact.sha256 + artifact.staged_name: artifact
            for environment in job.environments.values()
            for artifact in environment.artifacts
        }
        if not wanted:
            return
        self._directory = tempfile.mkdtemp(prefix="beam-embedded-")
        staged = os.path.join(self._directory, STAGED_DIRECTORY)
        os.mkdir(staged)
        for artifact in wanted.values():
            _write_artifact(artifact, artifacts, staged)
        experiments: Iterable[str] = self.options.view_as(DebugOptions).experiments or []
        if "no_staged_dir_in_sys_path" not in experiments:
            sys.path.append(staged)

    def _load_main_session(self, job: JobContext, functions: Callable[[], Iterable[bytes]]) -> None:
        """Loads the main session into a new ``__main__`` module, because the process already has
        another ``__main__``.
        """
        main = MainModule(functions, self._read_classes_from_main_session(job))
        main.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = main
        _set_dill_main_module(main)
        session = os.path.join(self._directory, STAGED_DIRECTORY, names.PICKLED_MAIN_SESSION_FILE)
        if not self._directory or not os.path.isfile(session):
            return
        try:
            sdk_worker_main._load_main_session(self._directory)
        except Exception as error:
            raise BundleError(
                f"the main session of job {job.job_name}",
                f"{add_missing_module_advice(describe_exception(error))} (check that the packages which the"
                " pipeline's main module imports are installed on the workers, in the"
                " same versions)",
                traceback.format_exc(),
            ) from error

    def _read_classes_from_main_session(self, job: JobContext) -> dict[str, bytes]:
        file = Path(self._directory, STAGED_DIRECTORY, main_classes.FILE_NAME)
        if not self._directory or not file.is_file():
            return {}
        try:
            return main_classes.decode_classes(file.read_bytes())
        except ValueError as error:
            raise BundleError(
                f"the classes of the main module of job {job.job_name}",
                f"Can't read the staged file {file.name}: {error}",
                traceback.format_exc(),
            ) from error


def _set_dill_main_module(main: MainModule) -> None:
    """Sets the ``__main__`` module that dill unpickles into, because dill stores the module at its import."""
    for name in ("dill._dill", "dill.dill", "dill.session"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "_main_module"):
            module.__dict__["_main_module"] = main


def _write_artifact(artifact: Artifact, artifacts: ArtifactReader, directory: str) -> None:
    digest = hashlib.sha256()
    try:
        with open(os.path.join(directory, _choose_file_name(artifact)), "wb") as file:
            for piece in artifacts.read_artifact(artifact.sha256):
                digest.update(piece)
                file.write(piece)
    except KeyError as error:
        raise HarnessError(
            f"The staged file {artifact.staged_name!r} ({artifact.sha256}) is missing"
        ) from error
    if digest.hexdigest() != artifact.sha256:
        raise HarnessError(
            f"The staged file {artifact.staged_name!r} has unexpected content: sha256"
            f" {digest.hexdigest()}; expected {artifact.sha256}"
        )


def _choose_file_name(artifact: Artifact) -> str:
    """Returns the staged name of a file if it is a plain file name; otherwise the hash of the file's content."""
    name = artifact.staged_name
    if name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name or "\\" in name:
        return artifact.sha256
    return name
