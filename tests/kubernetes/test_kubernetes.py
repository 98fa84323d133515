"""Tests that Spark's Kubernetes client starts executors for the server of deploy/kubernetes.

The API server is fabric8's mock, and the pods are processes of this machine. No kubelet, no network of
pods and no image takes part.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
import yaml
from api_server import NAMESPACE, KubernetesApi
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess, job_server
from jobs import Job, Pipelines
from node import ADDRESS, Node
from server_commands import DEPLOY, read_containers
from waiting import wait_until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(ADDRESS.startswith("127."), reason="NOT RUN: the machine has no network"),
]
_SERVER_POD = "server"
_OF_THIS_TEST = ("--state-dir", "--data-dir", "--channel-port", "--channel-host")
_OF_THE_POD = ("--job-", "--web-", "--allow-remote", "--token-file", "--standby", "--log-kind")
_VALUES = {
    "POD_IP": ADDRESS,
    "POD_NAME": _SERVER_POD,
    "POD_NAMESPACE": NAMESPACE,
    "EXECUTOR_IMAGE": "image",
    "EXECUTORS": "2",
    "EXECUTOR_CORES": "1",
    "EXECUTOR_MEMORY": "512m",
    "EXECUTOR_OVERHEAD": "1g",
}
NUMBERS = 400


def read_flags(api: KubernetesApi, folder: Path) -> list[str]:
    """Returns the arguments of the manifest's server, for the mock cluster and free ports."""
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "server.yaml").read_text()))
    (container,) = read_containers(manifests)
    template = folder / "pod.yaml"
    settings = yaml.safe_load_all((DEPLOY / "kubernetes" / "settings.yaml").read_text())
    (text,) = (one["data"]["pod.yaml"] for one in settings if "pod.yaml" in one["data"])
    template.write_text(text)
    flags = []
    for argument in container["args"]:
        for name, value in _VALUES.items():
            argument = argument.replace(f"$({name})", value)
        if not argument.startswith((*_OF_THIS_TEST, *_OF_THE_POD)) and ".port=" not in argument:
            flags.append(argument)
    replaced = {
        "https://kubernetes.default.svc": api.url,
        "/etc/beam-spark/executor/pod.yaml": str(template),
    }
    for old, new in replaced.items():
        flags = [flag.replace(old, new) for flag in flags]
    return [*flags, f"--state-dir={folder}/state", f"--data-dir={folder}/data"]


def create_server_pod(api: KubernetesApi) -> None:
    """Creates the pod in which the server would run, which owns the executors' pods."""
    metadata = {"name": _SERVER_POD, "namespace": NAMESPACE, "uid": "1"}
    spec = {"containers": [{"name": "server", "image": "image"}]}
    api.create_pod({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    api.set_status(
        _SERVER_POD, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="k") as name:
        (Path(name) / "tmp").mkdir()
        yield Path(name)


def wait_slowly(number: int) -> tuple[int, int]:
    time.sleep(0.05)
    return number % 7, number


def start_job(server: JobServerProcess, out: Path) -> Job:
    """Starts a job of about 10 s on two cores, which writes the sum of each key to a file."""

    def write_sum(pair: tuple[int, int]) -> None:
        (out / str(pair[0])).write_text(str(pair[1]))

    out.mkdir()
    pipelines = Pipelines(server.address, "embedded", ())
    pipeline = pipelines.new()
    _ = (
        pipeline
        | beam.Create(range(NUMBERS))
        | beam.Reshuffle()
        | beam.Map(wait_slowly)
        | beam.CombinePerKey(sum)
        | beam.Map(write_sum)
    )
    return pipelines.job(pipeline)


def check_result(address: str, job_id: str, out: Path) -> None:
    with JobClient(address) as client:
        state = client.wait_until_finish(job_id, 200)
        assert state is JobState.DONE, list(client.follow_messages(job_id, 10))[-3:]
    assert sum(int(file.read_text()) for file in out.iterdir()) == sum(range(NUMBERS))


def test_job_survives_a_killed_executor_pod(api: KubernetesApi, node: Node, folder: Path) -> None:
    create_server_pod(api)
    with job_server(folder / "tmp", *read_flags(api, folder)) as server:
        job = start_job(server, folder / "out")
        wait_until(lambda: len(node.executors()) == 2, 100)
        first = sorted(node.executors())
        time.sleep(2)
        node.kill_container(first[0])
        check_result(server.address, job.job_id, folder / "out")
        wait_until(lambda: len(node.executors()) == 2, 60)
        assert len({*first, *node.executors()}) == 3
    wait_until(lambda: not node.executors(), 60)


def test_job_survives_a_killed_server(api: KubernetesApi, node: Node, folder: Path) -> None:
    create_server_pod(api)
    flags = read_flags(api, folder)
    first = JobServerProcess(folder / "tmp", *flags)
    job = start_job(first, folder / "out")
    wait_until(lambda: len(node.executors()) == 2, 100)
    time.sleep(2)
    first.kill()
    with job_server(folder / "tmp", *flags) as second:
        check_result(second.address, job.job_id, folder / "out")
