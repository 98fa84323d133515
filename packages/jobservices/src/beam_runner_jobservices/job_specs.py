"""Specifications of jobs: the job's id, and the prepared pipeline with its staged artifacts."""

from __future__ import annotations

import re
import secrets

from beam_runner_model.jobs import JobSpec
from beam_runner_urns import options as option_urns

from beam_runner_jobservices.preparations import Preparation
from beam_runner_jobservices.wire.pipelines import PrepareRequest, replace_dependencies


def make_job_id(request: PrepareRequest) -> str:
    """Returns a new id, which begins with the job's name."""
    readable = re.sub(r"[^a-z0-9]+", "-", _find_job_name(request).lower()).strip("-")
    return f"{readable[:40] or 'job'}-{secrets.token_hex(4)}"


def make_job_spec(
    job_id: str, preparation: Preparation, retrieval_endpoint: str, user: str
) -> JobSpec:
    """Returns the specification of a prepared job whose artifacts are staged.

    Raises:
        NotReady: see `Preparation.artifacts`.
    """
    request = preparation.request
    return JobSpec(
        job_id=job_id,
        job_name=_find_job_name(request),
        pipeline=replace_dependencies(request.pipeline, preparation.staged),
        options=request.options,
        options_json=request.options_json,
        artifacts=preparation.artifacts(),
        retrieval_endpoint=retrieval_endpoint,
        user=user,
    )


def _find_job_name(request: PrepareRequest) -> str:
    """Returns the user's name for the job. The Python SDK always prepares with "job", and sends the
    name as an option.
    """
    named = request.options.get(option_urns.JOB_NAME)
    return named if isinstance(named, str) and named else request.job_name or "job"
