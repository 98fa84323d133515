"""Mock of the Kubernetes API server, from fabric8, and a client for tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from java_servers import QUICK

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
NAMESPACE = "default"
_JSON = "application/json"
_MERGE = "application/merge-patch+json"


class KubernetesApi:
    """Running mock server, which stores objects in memory.

    Args:
        class_path: class path of the mock server.

    Attributes:
        url: address of the API.
    """

    def __init__(self, class_path: str) -> None:
        java = shutil.which("java")
        assert java is not None
        self._process = subprocess.Popen(
            [java, *QUICK, "-cp", class_path, str(HERE / "ApiServer.java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        assert port, "the mock server didn't start"
        self.url = f"http://127.0.0.1:{port}"

    def list_pods(self) -> list[dict[str, Any]]:
        """Returns all pods, as JSON objects."""
        items: list[dict[str, Any]] = self._call("GET", self._path())["items"]
        return items

    def create_pod(self, pod: dict[str, Any]) -> None:
        """Creates a pod."""
        self._call("POST", self._path(), pod)

    def set_status(self, name: str, status: dict[str, Any]) -> None:
        """Replaces fields of a pod's status. A deleted pod is no error."""
        try:
            self._call("PATCH", f"{self._path(name)}/status", {"status": status}, _MERGE)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def delete_pod(self, name: str) -> None:
        """Deletes a pod, as ``kubectl delete pod`` does."""
        self._call("DELETE", self._path(name))

    def close(self) -> None:
        """Stops the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _path(self, name: str = "") -> str:
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return f"{pods}/{name}" if name else pods

    def _call(self, method: str, path: str, body: Any = None, kind: str = _JSON) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": kind}, method=method
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.loads(response.read() or "null")
