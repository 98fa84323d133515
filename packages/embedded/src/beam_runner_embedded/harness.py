"""Harness that runs the Python stages of a job in the current process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from apache_beam.runners.worker.data_sampler import DataSampler
from beam_runner_model.stages import HarnessStage, JobContext
from beam_runner_worker import samples
from beam_runner_worker.ports import ArtifactReader, LogSink, SideInputReader

from beam_runner_embedded.combine_tables import TABLE_BYTES
from beam_runner_embedded.main_module import extract_functions
from beam_runner_embedded.setup import ProcessSetup
from beam_runner_embedded.stage import EmbeddedStage

_LOGGER = logging.getLogger(__name__)


class EmbeddedHarness:
    """Implementation of :class:`~beam_runner_worker.ports.Harness` that runs user code in the current
    process.

    The embedded harness changes process-wide state of Beam (options, file systems, pickling, ``__main__``, root
    logger), so a process can serve only one job.

    Args:
        job: the job; its environments' artifacts are staged to a private folder.
        artifacts: reads the staged files.
        logs: receives all records that this process logs through Python's ``logging``.
        table_bytes: the memory limit of a lifted combine's table.
        stages: returns all stages of the job. The stages are needed if an element's class is
            defined in the user's script, and no function of the running stages contains the class.
        captures_prints: whether the harness replaces ``sys.stdout``, and sends lines that user code
            prints to ``logs``.

    Raises:
        BundleError: The main session can't be loaded.
        HarnessError: a staged file is missing or damaged.
    """

    def __init__(
        self,
        job: JobContext,
        artifacts: ArtifactReader,
        logs: LogSink,
        table_bytes: int = TABLE_BYTES,
        stages: Callable[[], Iterable[HarnessStage]] = tuple,
        *,
        captures_prints: bool = False,
    ) -> None:
        self._table_bytes = table_bytes
        self._setup = ProcessSetup(
            job,
            artifacts,
            logs,
            lambda: extract_functions(stages()),
            captures_prints=captures_prints,
        )
        self._stages: dict[str, EmbeddedStage] = {}
        self._closed = False
        wanted = samples.are_samples_enabled(job.options_json)
        # With a period of 0, Beam's sampler starts no timers. The harness takes samples when it
        # reports progress.
        self._sampler = DataSampler(samples.MOST_SAMPLES, 0) if wanted else None

    def get_stage_harness(self, spec: HarnessStage, side_inputs: SideInputReader) -> EmbeddedStage:
        """Returns the harness of a stage. The first call creates and caches the harness, so later
        calls ignore ``side_inputs``.

        The first bundle of a stage builds its operations, which takes 1 to 3 ms plus the time of
        the DoFns' ``setup``.
        """
        stage = self._stages.get(spec.stage_id)
        if stage is None:
            flush = self._setup.flush_output
            stage = EmbeddedStage(spec, side_inputs, flush, self._sampler, self._table_bytes)
            self._stages[spec.stage_id] = stage
        return stage

    def close(self) -> None:
        """Tears down every DoFn instance once and undoes the set-up; idempotent, never raises."""
        if self._closed:
            return
        self._closed = True
        for stage in self._stages.values():
            try:
                stage.tear_down()
            except Exception:
                _LOGGER.exception("Can't tear down a stage")
        try:
            self._setup.close()
        except Exception:
            _LOGGER.exception("Can't close the embedded harness")
