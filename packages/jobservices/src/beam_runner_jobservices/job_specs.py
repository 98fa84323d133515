"""Specifications of jobs: the job's id, and the prepared pipeline with its staged artifacts."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping

import attrs
from beam_runner_model.jobs import JobSpec, JobState, StagedArtifact, StateEvent
from beam_runner_urns import options as option_urns

from beam_runner_jobservices.preparations import Preparation
from beam_runner_jobservices.recorder import UnfinishedJob
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.wire.pipelines import PrepareRequest, replace_dependencies


def make_job_id(request: PrepareRequest) -> str:
    """Returns a new id for a prepared job."""
    return choose_job_id(_find_job_name(request))


def choose_job_id(job_name: str) -> str:
    """Returns a new id, which begins with the job's name."""
    readable = re.sub(r"[^a-z0-9]+", "-", job_name.lower()).strip("-")
    return f"{readable[:40] or 'job'}-{secrets.token_hex(4)}"


def make_new_job(
    job_id: str, preparation: Preparation, retrieval_endpoint: str, user: str, now: float
) -> UnfinishedJob:
    """Returns a prepared job whose artifacts are staged, as the server records it.

    Raises:
        NotReady: see `Preparation.artifacts`.
    """
    request = preparation.request
    spec = JobSpec(
        job_id=job_id,
        job_name=_find_job_name(request),
        pipeline=replace_dependencies(request.pipeline, preparation.staged),
        options=request.options,
        options_json=request.options_json,
        artifacts=preparation.list_artifacts(),
        retrieval_endpoint=retrieval_endpoint,
        user=user,
    )
    begin = StateEvent(JobState.STOPPED, now)
    return UnfinishedJob(spec, preparation.preparation_id, preparation.owner, (begin,))


def _find_job_name(request: PrepareRequest) -> str:
    """Returns the user's name for the job. The Python SDK always prepares with "job", and sends the
    name as an option.
    """
    named = request.options.get(option_urns.JOB_NAME)
    return named if isinstance(named, str) and named else request.job_name or "job"


def list_artifact_hashes(artifacts: Mapping[str, Iterable[StagedArtifact]]) -> set[str]:
    """Returns the hashes of artifacts, which are by environment id."""
    return {artifact.sha256 for found in artifacts.values() for artifact in found}


def locate_artifacts(spec: JobSpec, store: ArtifactStore) -> dict[str, tuple[StagedArtifact, ...]]:
    """Returns the artifacts of a job with their paths on this server. The paths can differ from the
    paths on an earlier server.
    """
    return {
        environment_id: tuple(
            attrs.evolve(one, path=str(store.get_path(one.sha256))) for one in artifacts
        )
        for environment_id, artifacts in spec.artifacts.items()
    }


def find_missing_artifact(spec: JobSpec, store: ArtifactStore) -> str:
    """Returns a missing artifact of the job, or empty if none is missing."""
    for artifacts in spec.artifacts.values():
        for artifact in artifacts:
            path = store.get_path(artifact.sha256)
            if not path.exists() or path.stat().st_size != artifact.size:
                return f"the artifact {artifact.file_name!r} is missing from {path}"
    return ""
