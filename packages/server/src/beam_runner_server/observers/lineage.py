"""OpenLineage events about the start, completion, failure and abort of jobs, with the inputs and
outputs of the jobs.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import time
import uuid
from collections.abc import Mapping

from apache_beam.version import __version__ as beam_version
from beam_runner_model.jobs import JobState
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    RunFacet,
    error_message_run,
    job_type_job,
    processing_engine_run,
)

from beam_runner_server.observers.datasets import DatasetName, read_datasets
from beam_runner_server.observers.observed_job import ObservedJob

_DISTRIBUTION = "beam-runner-server"
_PRODUCER = f"urn:{_DISTRIBUTION}:{importlib.metadata.version(_DISTRIBUTION)}"
_RUNS = uuid.uuid5(uuid.NAMESPACE_OID, _DISTRIBUTION)
_UPDATE_SECONDS = 60.0
"""Pause (s) between two searches for new inputs and outputs of a running job."""
_WAITING = (JobState.STOPPED, JobState.STARTING)
_ENDS: Mapping[JobState, RunState] = {
    JobState.FAILED: RunState.FAIL,
    JobState.CANCELLED: RunState.ABORT,
}


class LineageExporter:
    """Exporter that sends OpenLineage events. Implements `watch.JobExporter`."""

    def __init__(self, client: OpenLineageClient) -> None:
        self._client = client
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "beam")
        self._reported: dict[str, tuple[frozenset[DatasetName], frozenset[DatasetName]]] = {}
        self._next_update: dict[str, float] = {}

    def handle_sample(self, job: ObservedJob) -> None:
        """Emits an event if the job has started, or if a stream has new inputs or outputs."""
        if job.state in _WAITING:
            return
        now = time.monotonic()
        if job.job_id not in self._reported:
            self._emit_start_event(job)
        elif now >= self._next_update[job.job_id]:
            datasets = read_datasets(job.metrics)
            if datasets != self._reported[job.job_id]:
                self._emit_event(job, RunState.RUNNING, time.time(), *datasets)
                self._reported[job.job_id] = datasets
        else:
            return
        self._next_update[job.job_id] = now + _UPDATE_SECONDS

    def handle_job_end(self, job: ObservedJob) -> None:
        """Emits the last event of the job."""
        if job.job_id not in self._reported:
            self._emit_start_event(job)
        end = _ENDS.get(job.state, RunState.COMPLETE)
        self._emit_event(job, end, job.times.ended or time.time(), *read_datasets(job.metrics))
        self._reported.pop(job.job_id)
        self._next_update.pop(job.job_id, None)

    def close(self) -> None:
        self._client.close(timeout=5.0)

    def _emit_start_event(self, job: ObservedJob) -> None:
        # A job of an earlier server has already started.
        kind = RunState.START if job.is_new else RunState.RUNNING
        nothing: frozenset[DatasetName] = frozenset()
        self._emit_event(job, kind, job.times.started or job.submitted, nothing, nothing)
        self._reported[job.job_id] = (nothing, nothing)

    def _emit_event(
        self,
        job: ObservedJob,
        kind: RunState,
        at: float,
        inputs: frozenset[DatasetName],
        outputs: frozenset[DatasetName],
    ) -> None:
        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=beam_version, name="Apache Beam"
            )
        }
        if kind is RunState.FAIL:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=job.times.error, programmingLanguage="PYTHON"
            )
        kinds = "STREAMING" if job.tree.sources else "BATCH"
        self._client.emit(
            RunEvent(
                eventType=kind,
                eventTime=datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(),
                run=Run(runId=str(uuid.uuid5(_RUNS, job.job_id)), facets=facets),
                job=Job(
                    namespace=self._namespace,
                    name=job.name,
                    facets={
                        "jobType": job_type_job.JobTypeJobFacet(
                            processingType=kinds, integration="BEAM", jobType="JOB"
                        )
                    },
                ),
                producer=_PRODUCER,
                inputs=[InputDataset(one.namespace, one.name) for one in sorted(inputs)],
                outputs=[OutputDataset(one.namespace, one.name) for one in sorted(outputs)],
            )
        )
