"""Tests that log messages of SDKs reach the runner once."""

from __future__ import annotations

from typing import Any, cast

import grpc
from tiny_host import Logs

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.services import LoggingService, SdkRegistry

GO = "/home/me/go/pkg/mod/github.com/apache/beam/sdks/v2@v2.77.0/go/pkg/beam"


class Call:
    """An accepted call of the SDK with the ID "1"."""

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return [("worker_id", "1")]


def logged(**locations: str) -> str:
    """Returns the messages that reach the runner, for messages logged at these locations."""
    workers, logs = SdkRegistry(), Logs()
    workers.add_connection(SdkConnection("1", "go"))
    entries = [
        beam_fn_api_pb2.LogEntry(message=message, log_location=location)
        for message, location in locations.items()
    ]
    batch = beam_fn_api_pb2.LogEntry.List(log_entries=entries)
    call = cast("grpc.ServicerContext", cast("Any", Call()))
    assert not list(LoggingService(workers, logs).Logging(iter([batch]), call))
    return logs.messages


def test_job_messages_shown_by_go_program_are_not_sent_back() -> None:
    text = logged(
        shown=f"{GO}/runners/universal/runnerlib/job.go:152",
        of_the_user="/home/me/pipeline/main.go:7",
        of_the_harness=f"{GO}/core/runtime/harness/harness.go:90",
        of_nobody="",
    )
    assert text.split() == ["of_the_user", "of_the_harness", "of_nobody"]


def test_unclosed_java_channels_are_not_logged_as_job_errors() -> None:
    text = logged(
        orphan="org.apache.beam.vendor.grpc.v1p69p0.io.grpc.internal.ManagedChannelOrphanWrapper",
        of_the_user="my.Pipeline",
    )
    assert text.split() == ["of_the_user"]
