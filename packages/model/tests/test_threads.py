from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from beam_runner_model.threads import run_concurrently, start_essential_thread, start_helper_thread

SECONDS = 60
CODE = """
import builtins, sys, time
from beam_runner_model.threads import start_essential_thread

def work():
    if sys.argv[1] == "breaks":
        for name in [name for name in vars(builtins) if name[0] != "_"]:
            setattr(builtins, name, None)
        len([])
    elif sys.argv[1] == "exits":
        raise SystemExit(0)
    elif sys.argv[1] == "handler breaks":
        raise ValueError

def on_break(error):
    raise ValueError

start_essential_thread(work, "work", on_break if sys.argv[1] == "handler breaks" else None)
time.sleep(3 if sys.argv[1] == "ends" else 600)
"""


@pytest.mark.parametrize(
    ("what", "code"), [("breaks", 1), ("exits", 1), ("handler breaks", 1), ("ends", 0)]
)
def test_process_exits_if_an_essential_thread_raises(what: str, code: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", CODE, what], env=environment, timeout=60)
    assert done.returncode == code


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(0), KeyboardInterrupt()])
def test_error_handler_gets_the_error_that_an_essential_thread_raises(error: BaseException) -> None:
    heard: list[BaseException] = []

    def work() -> None:
        raise error

    start_essential_thread(work, "work", heard.append).join(SECONDS)
    assert heard == [error]


def test_error_that_a_helper_thread_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        raise SystemExit(3)

    with caplog.at_level(logging.ERROR):
        start_helper_thread(work, "merge").join(SECONDS)
    (record,) = caplog.records
    assert "merge" in record.getMessage()


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_run_concurrently_with_many_items_returns_results_in_order(at_once: int) -> None:
    def work(item: int) -> int:
        time.sleep(0.001 * (10 - item))
        return 2 * item

    assert run_concurrently(work, range(10), at_once, "w") == [2 * item for item in range(10)]
    assert run_concurrently(work, [], at_once, "w") == []


def test_run_concurrently_makes_calls_at_the_same_time() -> None:
    together = threading.Barrier(4)
    assert run_concurrently(lambda _: together.wait(SECONDS) >= 0, range(8), 4, "w") == [True] * 8


@pytest.mark.parametrize("error", [OSError("full"), SystemExit(1)])
def test_run_concurrently_with_a_failing_call_raises_its_error(error: BaseException) -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 2:
            raise error

    with pytest.raises(type(error)) as raised:
        run_concurrently(work, range(1000), 2, "w")
    assert raised.value is error
    assert len(begun) < 1000
