"""Node of the mock cluster: it runs the container of each executor pod as a process of this machine.

It stands in for the scheduler, the kubelet and the container runtime: it gives a pod an address, sets
the variables of its container, runs the image's entry point, and reports the end of the process.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from api_server import KubernetesApi


def find_own_address() -> str:
    """Returns the address of this machine's first route, or loopback without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


ENTRY_POINT = Path(__file__).parents[2] / "deploy" / "docker" / "entrypoint.sh"
IMAGE_PYTHON = "/opt/beam/bin/python3"
ADDRESS = find_own_address()
"""Address of the pods; the server refuses loopback addresses for pods."""
_LOOK_SECONDS = 0.2


class Node:
    """Node that looks for new, ended and deleted pods five times per second.

    Args:
        api: API server with the pods.
        folder: folder for the output of containers.
    """

    def __init__(self, api: KubernetesApi, folder: Path) -> None:
        self._api = api
        self._folder = folder
        self._script = folder / "entrypoint.sh"
        # The image has its Python at a fixed path, and this machine has its own.
        self._script.write_text(
            ENTRY_POINT.read_text("utf-8").replace(IMAGE_PYTHON, sys.executable), "utf-8"
        )
        self._containers: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: set[str] = set()
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def executors(self) -> dict[str, subprocess.Popen[bytes]]:
        """Returns the running containers, by the names of their pods."""
        return {name: c for name, c in self._containers.copy().items() if c.poll() is None}

    def kill_container(self, name: str) -> None:
        """Kills the processes of a container, as the kernel does for want of memory."""
        os.killpg(self._containers[name].pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends all containers.

        Raises:
            BaseException: The node failed earlier.
        """
        self._closing.set()
        self._thread.join(30)
        for name in self.executors():
            self.kill_container(name)
        for container in self._containers.values():
            container.wait(30)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._closing.wait(_LOOK_SECONDS):
                self._look()
        except BaseException as error:
            self._failure = error

    def _look(self) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self._api.list_pods()}
        for name, pod in pods.items():
            if name not in self._containers and pod["spec"]["containers"][0].get("args"):
                self._containers[name] = self._start_container(name, pod)
                self._api.set_status(name, _describe_status("Running", {"running": {}}))
        for name, container in self._containers.items():
            if name not in pods and container.poll() is None:
                os.killpg(container.pid, signal.SIGTERM)
            elif container.poll() is not None and name not in self._ended:
                self._ended.add(name)
                ended = {"terminated": {"exitCode": container.returncode % 256}}
                phase = "Failed" if container.returncode else "Succeeded"
                self._api.set_status(name, _describe_status(phase, ended))

    def _start_container(self, name: str, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        container = pod["spec"]["containers"][0]
        fields = {"status.podIP": ADDRESS, "metadata.name": name}
        variables = {
            one["name"]: one["value"]
            if "value" in one
            else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container.get("env", ())
        }
        folders = {one["name"]: self._folder / name / one["name"] for one in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            folder = folders[mount["name"]]
            folder.mkdir(parents=True, exist_ok=True)
            variables = {
                key: value.replace(mount["mountPath"], str(folder))
                for key, value in variables.items()
            }
        variables.pop("SPARK_CONF_DIR", None)
        with (self._folder / f"{name}.log").open("wb") as output:
            return subprocess.Popen(
                ["sh", str(self._script), *container["args"]],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _describe_status(phase: str, state: dict[str, Any]) -> dict[str, Any]:
    """Returns the status of a pod with one container."""
    return {
        "phase": phase,
        "podIP": ADDRESS,
        "containerStatuses": [
            {
                "name": "spark-kubernetes-executor",
                "state": state,
                "ready": phase == "Running",
                "image": "",
                "imageID": "",
                "restartCount": 0,
            }
        ],
    }
