"""Tests that the failure reason of a job is a sentence, even if an SDK raises a bare KeyError."""

from __future__ import annotations

import time
import traceback

import pytest
from apache_beam.coders.coders import Coder
from apache_beam.runners.pipeline_context import PipelineContext
from beam_runner_engine.scheduler.commands import FailJob
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_planner import _protos
from small_jobs import PLAN

from beam_runner_driver.reports.reporting import format_job_failure


def of_unknown_coder() -> str:
    """Returns the traceback of an SDK that doesn't know a coder."""
    proto = _protos.Coder(spec=_protos.FunctionSpec(urn="beam:coder:odd:v1"))
    try:
        Coder.from_runner_api(proto, PipelineContext())
    except KeyError:
        return traceback.format_exc()
    raise AssertionError("Beam knows it")


def explain(cause: str, kind: FailureKind) -> str:
    end = FailJob("failed", "see", (cause,))
    return format_job_failure(end, BundleFailed(1, 1, cause, kind), PLAN)


@pytest.mark.parametrize("kind", [FailureKind.USER, FailureKind.OUTSIDE])
def test_failure_reason_names_unsupported_sdk_feature(kind: FailureKind) -> None:
    cause = f"KeyError while loading its functions\n{of_unknown_coder()}"
    assert "the SDK doesn't know 'beam:coder:odd:v1', a URN in the pipeline" in explain(cause, kind)


def test_failure_reason_contains_key_error_of_user_code_unchanged() -> None:
    cause = "KeyError: 'beam:coder:odd:v1'\n  File 'mine.py'\nKeyError: 'beam:coder:odd:v1'"
    assert explain(cause, FailureKind.USER) == cause


def test_failure_reason_parsing_takes_linear_time() -> None:
    cause = "ValueError: " + "_known_urns[" * 100_000 + "KeyError:"
    began = time.thread_time()
    assert explain(cause, FailureKind.USER) == cause
    assert time.thread_time() - began < 1
