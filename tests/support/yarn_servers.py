"""Real YARN: Hadoop's resource manager and node manager on this machine, with two queues."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Mapping
from getpass import getuser
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from free_ports import find_free_ports
from java_servers import QUICK
from waiting import wait_until

POM = Path(__file__).parents[1] / "yarn" / "pom.xml"
QUEUE = "beam"
_SERVERS = "org.apache.hadoop.yarn.server"
_PROGRAMS = (
    f"{_SERVERS}.resourcemanager.ResourceManager",
    f"{_SERVERS}.nodemanager.NodeManager",
)
_ADDRESSES = (
    *(f"resourcemanager.{name}address" for name in ("", "scheduler.", "admin.", "webapp.")),
    "resourcemanager.resource-tracker.address",
    *(f"nodemanager.{name}address" for name in ("", "localizer.", "webapp.")),
)
_CAPACITY = "yarn.scheduler.capacity"
_SECONDS = 180.0


def make_settings(disk: Path) -> dict[str, str]:
    """Returns the settings of both servers and of clients, at free ports."""
    host = "127.0.0.1"
    ports = find_free_ports(len(_ADDRESSES))
    return {
        **{f"yarn.{name}": f"{host}:{port}" for name, port in zip(_ADDRESSES, ports, strict=True)},
        "yarn.resourcemanager.hostname": host,
        "yarn.nodemanager.hostname": host,
        "yarn.nodemanager.local-dirs": f"{disk}/local",
        "yarn.nodemanager.log-dirs": f"{disk}/logs",
        "yarn.nodemanager.resource.memory-mb": "8192",
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.scheduler.minimum-allocation-mb": "128",
        # The memory and the disk of the tests' machine are not the subject of the tests.
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
    }


def make_queues() -> dict[str, str]:
    """Returns the settings of the scheduler: the default queue, and a queue of Beam jobs."""
    queues = {
        f"{_CAPACITY}.root.{queue}.{setting}": value
        for queue in ("default", QUEUE)
        for setting, value in (("capacity", "50"), ("maximum-capacity", "100"))
    }
    names = {f"{_CAPACITY}.root.queues": f"default,{QUEUE}"}
    return {**queues, **names, f"{_CAPACITY}.maximum-am-resource-percent": "1.0"}


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Writes a file of Hadoop settings."""
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>{rows}</configuration>", encoding="utf-8")


class YarnServers:
    """Resource manager and node manager, with files in a folder instead of HDFS.

    Attributes:
        conf: folder of the settings, for ``HADOOP_CONF_DIR``.
        logs: folder of the logs of containers.
    """

    def __init__(self, folder: Path, classes: str) -> None:
        self.conf = folder / "conf"
        self.logs = folder / "disk" / "logs"
        self._log = folder / "yarn.log"
        self.conf.mkdir()
        settings = make_settings(folder / "disk")
        self._pages = settings["yarn.resourcemanager.webapp.address"]
        write_settings(self.conf / "yarn-site.xml", settings)
        write_settings(self.conf / "capacity-scheduler.xml", make_queues())
        write_settings(self.conf / "core-site.xml", {"fs.defaultFS": "file:///"})
        self._running = [self._start(program, classes) for program in _PROGRAMS]
        try:
            wait_until(self._has_a_node, _SECONDS, self._log.read_text)
        except BaseException:
            self.close()
            raise

    def list_applications(self) -> list[dict[str, Any]]:
        """Returns the applications as the resource manager reports them, the newest first."""
        found = (self._get("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda one: str(one["id"]), reverse=True)

    def find_driver(self, application: str, attempt: int) -> int:
        """Returns the process id of the JVM in the first container of an attempt of an application."""
        number = application.removeprefix("application_")
        container = f"container_{number}_{attempt:02}_000001".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # The process has ended.
            of_container = any(container in word for word in words)
            if of_container and words[0].endswith(b"java"):
                return int(folder.name)
        raise AssertionError(f"no driver of {application} runs: {self.show_logs()}")

    def kill_application(self, application: str) -> None:
        """Ends an application, as ``yarn application -kill`` does."""
        url = f"http://{self._pages}/ws/v1/cluster/apps/{application}/state?user.name={getuser()}"
        body = json.dumps({"state": "KILLED"}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def show_logs(self) -> str:
        """Returns the ends of the containers' logs, for a failed test."""
        files = [one for one in self.logs.glob("*/*/std*") if one.stat().st_size]
        return "\n".join(f"{one}:\n{one.read_text(errors='replace')[-4000:]}" for one in files)

    def close(self) -> None:
        """Stops both servers. The node manager stops its containers."""
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            process.wait(_SECONDS)

    def _start(self, program: str, classes: str) -> subprocess.Popen[bytes]:
        command = ["java", *QUICK, "-Xmx256m", "-cp", f"{self.conf}:{classes}", program]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))

    def _has_a_node(self) -> bool:
        try:
            return int(self._get("metrics")["clusterMetrics"]["activeNodes"]) == 1
        except OSError:
            return False

    def _get(self, what: str) -> Any:
        url = f"http://{self._pages}/ws/v1/cluster/{what}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
