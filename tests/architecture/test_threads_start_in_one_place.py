"""Tests that the worker, the job services and the server start their threads in one module each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
SOURCES = sorted(folder for folder in PACKAGES.glob("*/src") if folder.parent.name != "web")
STARTERS = frozenset({"Thread", "ThreadPoolExecutor", "InheritableThread"})
ALLOWED = {
    "beam_runner_model/threads.py": "starts the threads of workers and servers",
    "beam_runner_jobservices/threads.py": "starts the threads of the job services",
    "beam_spark_executor/spark/threads.py": "starts threads that run Spark jobs",
    "beam_runner_worker/fnapi/server.py": "gRPC wants a pool, and catches what its calls raise",
    "beam_runner_runtime/channel/server.py": "gRPC wants a pool, and catches what its calls raise",
}
CLIENTS = "beam_spark_executor/client/"
"""These threads are in the program of the user: no job of a server waits for them."""


def starts(source: str) -> Iterator[int]:
    """Yields the lines that start a thread or make a pool of threads."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            if isinstance(node.func, ast.Name):
                name = node.func.id
            if name in STARTERS:
                yield node.lineno


def test_threads_start_only_in_listed_modules() -> None:
    found = {
        f"{path.relative_to(folder)}:{line}"
        for folder in SOURCES
        for path in folder.rglob("*.py")
        for line in starts(path.read_text(encoding="utf-8"))
    }
    others = {
        place
        for place in found
        if place.partition(":")[0] not in ALLOWED and not place.startswith(CLIENTS)
    }
    assert others == set(), (
        "start these by start_essential_thread, start_helper_thread or run_concurrently"
    )
    assert {place.partition(":")[0] for place in found} >= set(ALLOWED)


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nthreading.Thread(target=print).start()",
        "from threading import Thread\nThread()",
        "with ThreadPoolExecutor(2) as pool:\n    pass",
    ],
)
def test_thread_check_reports_a_planted_thread_start(source: str) -> None:
    assert len(list(starts(source))) == 1
