"""A mock of the Kubernetes API, and a node that runs pods as processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

from api_server import POM, KubernetesApi
from java_servers import fetch_class_path
from jobs import pickle_by_value
from node import Node


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the class path of the mock server."""
    return fetch_class_path(POM, tmp_path_factory.mktemp("maven"))


@pytest.fixture
def api(class_path: str) -> Iterator[KubernetesApi]:
    """Yields a running API without objects."""
    server = KubernetesApi(class_path)
    yield server
    server.close()


@pytest.fixture
def node(api: KubernetesApi, tmp_path: Path) -> Iterator[Node]:
    """Yields a node that runs executor pods."""
    running = Node(api, tmp_path)
    yield running
    running.close()


@pytest.fixture(autouse=True, scope="module")
def _send_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)
