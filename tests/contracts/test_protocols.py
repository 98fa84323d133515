"""Tests that the implementations match the types of the ports that the layers declare.

mypy checks the functions at the top (`nox -s types`), which no code calls. The tests below compare
the signatures of the packages installed from their wheels.
"""

from __future__ import annotations

import inspect

import pytest
from beam_runner_data.rows.outputs import RowConverter
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_driver.job.job import RunningJob
from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_jobservices.ports import JobExecutor, JobHandle, JobObserver
from beam_runner_runtime.bundles.stages import JobStages
from beam_runner_runtime.channel.client import ChannelClient
from beam_runner_runtime.channel.server import JobMessageHandler
from beam_runner_server.executor import PlacedJobExecutor
from beam_runner_worker.fnapi.harness import FnApiHarness
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.ports import ArtifactReader, Harness, LogSink, OutputPort, SideInputReader


def spark_takes_jobs(executor: PlacedJobExecutor) -> JobExecutor:
    return executor


def a_running_job_is_a_handle(job: RunningJob) -> JobHandle:
    return job


def a_running_job_tells_of_itself(job: RunningJob) -> JobObserver:
    return job


def a_running_job_is_the_channels_peer(job: RunningJob) -> JobMessageHandler:
    return job


def bundles_see_side_inputs(side_inputs: BundleSideInputs) -> SideInputReader:
    return side_inputs


def the_channel_reads_artifacts(channel: ChannelClient) -> ArtifactReader:
    return channel


def the_stages_of_a_job_take_logs(stages: JobStages) -> LogSink:
    return stages


def row_ports_are_output_ports(port: RowConverter) -> OutputPort:
    return port


def embedded_is_a_harness(harness: EmbeddedHarness) -> Harness:
    return harness


def the_fn_api_gives_harnesses(server: FnApiServer) -> Harness:
    return server.get_harness("environment")


PAIRS = [
    (PlacedJobExecutor, JobExecutor),
    (RunningJob, JobHandle),
    (RunningJob, JobObserver),
    (RunningJob, JobMessageHandler),
    (BundleSideInputs, SideInputReader),
    (ChannelClient, ArtifactReader),
    (JobStages, LogSink),
    (RowConverter, OutputPort),
    (EmbeddedHarness, Harness),
    (FnApiHarness, Harness),
]


@pytest.mark.parametrize(
    ("implementation", "port"), PAIRS, ids=lambda side: getattr(side, "__name__", "")
)
def test_port_implementation_methods_match_the_declared_signatures(
    implementation: type, port: type
) -> None:
    asked = {
        name: method
        for name, method in vars(port).items()
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__call__")
    }
    assert asked
    for name, method in asked.items():
        given = inspect.signature(getattr(implementation, name))
        assert list(given.parameters) == list(inspect.signature(method).parameters), name
