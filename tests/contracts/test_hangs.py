"""Table of hangs and waits of real jobs: the first answer of the JSON API names the reason, as a script
gets it that asks once. `packages/web/tests/causes/test_hang_records.py` has hangs that take minutes or need a cluster.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from beam_runner_jobservices.client import JobClient
from beam_runner_model.waits import WaitKind
from beam_runner_web.app import create_app
from beam_runner_web.causes.facts import CauseKind, CauseSeverity
from beam_runner_web.settings import WebSettings
from failing_streams import NumberSource
from job_server import job_server
from jobs import Pipelines, pickle_by_value
from starlette.testclient import TestClient
from waiting import wait_until

PROGRAM = (str(Path(__file__).parents[1] / "support" / "server_with_obstacles.py"),)
SECONDS = 120.0
HANG_SECONDS = 12.0
"""Time after which a hang must be reported: a bundle counts as stalled after 10 s."""
NOT_GOOD = {CauseSeverity.BAD.name, CauseSeverity.WARN.name}


class Hang(beam.DoFn):
    """DoFn that calls `hang` in one of its methods, after it has written the file `reached`."""

    def __init__(self, reached: Path, hang: Callable[[], Any], where: str = "process") -> None:
        self._reached, self._hang, self._where = reached, hang, where

    def _hang_in(self, method: str) -> None:
        if method == self._where:
            self._reached.touch()
            self._hang()

    def setup(self) -> None:
        self._hang_in("setup")

    def process(self, element: Any) -> Iterator[Any]:
        self._hang_in("process")
        yield element


class HangInTimer(beam.DoFn):
    TIMER = userstate.TimerSpec("timer", userstate.TimeDomain.REAL_TIME)
    STATE = userstate.ReadModifyWriteStateSpec("state", VarIntCoder())

    def __init__(self, reached: Path) -> None:
        self._reached = reached

    def process(self, element: tuple[int, int], timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        timer.set(time.time())

    @userstate.on_timer(TIMER)
    def fire(self, state: Any = beam.DoFn.StateParam(STATE)) -> None:
        self._reached.touch()
        time.sleep(3_600)


def match_slow_pattern() -> None:
    """Backtracks in C code, which holds the GIL."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def sleep_for_an_hour() -> None:
    time.sleep(3_600)


def stop_process() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def kill_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_silent_service() -> None:
    """Waits for the answer of a service that accepts connections, and never answers."""
    service = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(service.getsockname()) as connection:
        connection.sendall(b"INSERT")
        connection.recv(1)


def refuse_element() -> None:
    raise ConnectionRefusedError("the database is away")


def build_hang(hang: Callable[[], Any], where: str = "process") -> Callable[..., None]:
    def build(pipeline: beam.Pipeline, reached: Path) -> None:
        _ = (
            pipeline
            | beam.Create([1])
            | "Hangs" >> beam.ParDo(Hang(reached, hang, where))
            | beam.combiners.Count.Globally()
        )

    return build


def build_side_input(pipeline: beam.Pipeline, reached: Path) -> None:
    side = (
        pipeline
        | "Side" >> beam.Create([0])
        | "Never" >> beam.ParDo(Hang(reached, sleep_for_an_hour))
    )
    _ = (
        pipeline
        | "Main" >> beam.Create(["x" * 100] * 100)
        | "Use" >> beam.Map(lambda value, more: (value, more), beam.pvalue.AsList(side))
    )


def build_timer(pipeline: beam.Pipeline, reached: Path) -> None:
    _ = pipeline | beam.Create([(1, 1)]) | "Hangs" >> beam.ParDo(HangInTimer(reached))


def build_combine(pipeline: beam.Pipeline, reached: Path) -> None:
    def add(values: Any) -> int:
        reached.touch()
        time.sleep(3_600)
        return sum(values)

    _ = pipeline | beam.Create([(1, 1), (1, 2)]) | "Hangs" >> beam.CombinePerKey(add)


def build_stream(hang: Callable[[], Any]) -> Callable[..., None]:
    def build(pipeline: beam.Pipeline, reached: Path) -> None:
        numbers = pipeline | beam.Create([100]) | beam.ParDo(NumberSource())
        _ = numbers | beam.Reshuffle() | "Hangs" >> beam.ParDo(Hang(reached, hang))

    return build


@attrs.frozen
class Case:
    """A hang, and the possible kinds of its reason in the first answer of the JSON API."""

    kinds: frozenset[str] = attrs.field(converter=frozenset)
    build: Callable[..., None]
    options: tuple[str, ...] = ()


LOST = (CauseKind.FAILED_BUNDLE, CauseKind.ERROR)
"""Kinds of a failed attempt; the second kind once the next attempt runs."""
CASES: Mapping[str, Case] = {
    "native code holds the GIL": Case([WaitKind.PROCESS], build_hang(match_slow_pattern)),
    # The server ends a stopped process after some seconds, and the next process stops, too.
    "stopped process": Case([WaitKind.PROCESS, WaitKind.BUNDLES, *LOST], build_hang(stop_process)),
    "sleep": Case([CauseKind.STANDING_BUNDLE], build_hang(sleep_for_an_hour)),
    "silent service": Case([CauseKind.STANDING_BUNDLE], build_hang(wait_for_silent_service)),
    "setup": Case([CauseKind.STANDING_BUNDLE], build_hang(sleep_for_an_hour, "setup")),
    "combine": Case([CauseKind.STANDING_BUNDLE], build_combine),
    "timer": Case([CauseKind.STANDING_BUNDLE], build_timer),
    "step of a stream": Case(
        [CauseKind.STANDING_BUNDLE], build_stream(sleep_for_an_hour), ("--streaming",)
    ),
    "side input that never comes": Case([WaitKind.SIDE_INPUT], build_side_input),
    "sink that is away": Case(LOST, build_stream(refuse_element), ("--streaming",)),
    "process that dies again and again": Case(LOST, build_stream(kill_process), ("--streaming",)),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """Yields the first answer about each hung job."""
    pickle_by_value(__name__)
    folder = tmp_path_factory.mktemp("hangs")
    with (
        tempfile.TemporaryDirectory(prefix="t") as files,
        job_server(
            Path(files),
            f"--without-spark={2 * len(CASES)}",
            environment={"OBSTACLES": str(folder)},
            program=PROGRAM,
        ) as server,
    ):
        pipelines = Pipelines(server.address, "embedded", [])
        jobs = {}
        for number, (name, case) in enumerate(CASES.items()):
            pipeline = pipelines.new(*case.options)
            case.build(pipeline, folder / str(number))
            jobs[name] = pipelines.job(pipeline).job_id
        reached = {name: folder / str(number) for number, name in enumerate(CASES)}
        wait_until(lambda: all(one.exists() for one in reached.values()), SECONDS, str(reached))
        since = time.monotonic()
        wait_until(lambda: time.monotonic() > since + HANG_SECONDS)
        try:
            with ThreadPoolExecutor(len(jobs)) as threads:
                found = threads.map(lambda one: ask_first(server.address, one), jobs.values())
                yield dict(zip(jobs, found, strict=True))
        finally:
            with JobClient(server.address) as client:
                for job_id in jobs.values():
                    client.cancel_job(job_id)
                for job_id in jobs.values():
                    client.wait_until_finish(job_id, SECONDS)


def ask_first(address: str, job_id: str) -> Any:
    """Returns the answer about a job from new web pages, without earlier requests."""
    with TestClient(create_app(WebSettings(address)), base_url="http://localhost") as web:
        return web.get(f"/api/v1/jobs/{job_id}").json()


@pytest.mark.parametrize("name", CASES)
def test_first_answer_about_hung_job_names_reason(answers: Mapping[str, Any], name: str) -> None:
    causes = answers[name]["causes"]
    assert CASES[name].kinds & {cause["kind"] for cause in causes}, causes
    assert causes[0]["weight"] in NOT_GOOD
