"""The embedded harness: a job's Python stages, run in the process that asks for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from apache_beam.runners.worker.data_sampler import DataSampler
from beam_runner_model.stages import JobContext, StageSpec

from beam_runner_worker import samples
from beam_runner_worker.embedded.combine_tables import TABLE_BYTES
from beam_runner_worker.embedded.main_module import functions_of
from beam_runner_worker.embedded.setup import ProcessSetup
from beam_runner_worker.embedded.stage import EmbeddedStage
from beam_runner_worker.ports import ArtifactReader, LogSink, SideInputReader

_LOGGER = logging.getLogger(__name__)


class EmbeddedHarness:
    """A :class:`~beam_runner_worker.ports.Harness` which needs no second process.

    It changes what Beam keeps process-wide (options, file systems, pickling, ``__main__``, root
    logger), so one process must serve one job only, all its life.

    Args:
        job: the job; its environments' artifacts are staged to a private directory.
        artifacts: where they are read.
        logs: takes what is logged through Python's ``logging`` in this process.
        table_bytes: how much memory the table of a lifted combine may take.
        stages: gives all stages of the job; asked where an element's class, which the user's script
            defines, did not come along with the functions that were loaded here.

    Raises:
        BundleFailed: the main session cannot be loaded.
        HarnessError: a staged file is missing or damaged.
    """

    def __init__(
        self,
        job: JobContext,
        artifacts: ArtifactReader,
        logs: LogSink,
        table_bytes: int = TABLE_BYTES,
        stages: Callable[[], Iterable[StageSpec]] = tuple,
    ) -> None:
        self._table_bytes = table_bytes
        self._setup = ProcessSetup(job, artifacts, logs, lambda: functions_of(stages()))
        self._stages: dict[str, EmbeddedStage] = {}
        self._closed = False
        wanted = samples.is_wanted(job.options_json)
        # Without a period it starts no timers: samples are taken when bundles tell how far they are.
        self._sampler = DataSampler(samples.MOST_SAMPLES, 0) if wanted else None

    def stage(self, spec: StageSpec, side_inputs: SideInputReader) -> EmbeddedStage:
        """The stage's harness, made on first use and kept; ``side_inputs`` is fixed by then.

        Its operations are built with the first bundle (3 to 4 ms and the DoFns' ``setup``).
        """
        stage = self._stages.get(spec.stage_id)
        if stage is None:
            flush = self._setup.log_handler.flush
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
                _LOGGER.exception("A stage could not be torn down")
        try:
            self._setup.close()
        except Exception:
            _LOGGER.exception("The embedded harness could not be closed")
