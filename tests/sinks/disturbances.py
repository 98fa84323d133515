"""Streams into sinks while processes are killed and frozen, and the check of what is in the sink."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from chaos import strike
from crashing_sinks import PROBABILITY, count_repeated_commits, wrap_sink
from jobs import Pipelines
from lives import Lives, lives
from streams_into_sinks import build_stream

if TYPE_CHECKING:
    from database_servers import DatabaseServer

KINDS = ("worker", "worker", "server", "freeze", "crash")
_SECONDS = 300


OUTSIDE = ("database", "frozen database")


def disturb(
    running: Lives, kills: int, seed: int, database: DatabaseServer | None = None
) -> Counter[str]:
    """Kills and freezes processes of a stream and of its database at random; returns the number of each kind."""
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    frozen: list[int] = []
    for _ in range(kills):
        time.sleep(chance.uniform(0.3, 2.0))
        kind = chance.choice(KINDS if database is None else KINDS + OUTSIDE)
        choose = chance.randrange(100)
        if kind == "crash":  # the committers crash by themselves
            continue
        if database is not None and kind in OUTSIDE:
            disturb_database(database, kind, chance.uniform(0.2, 2.0))
            done[kind] += 1
        elif kind == "freeze":
            workers = sorted(running.victims("worker"))
            if workers:
                os.kill(workers[choose % len(workers)], signal.SIGSTOP)
                frozen.append(workers[choose % len(workers)])
                done[kind] += 1
        else:
            done[kind] += strike(running, kind, choose)
        if frozen and chance.random() < 0.6:
            thaw(frozen.pop(0))
    for pid in frozen:
        thaw(pid)
    return done


def disturb_database(database: DatabaseServer, kind: str, seconds: float) -> None:
    """Kills or freezes a database, and restarts or continues it after some seconds."""
    if kind == "database":
        database.kill()
    else:
        database.freeze()
    time.sleep(seconds)
    if kind == "database":
        database.start()
    else:
        database.thaw()


def thaw(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def drain(address: str, job_id: str) -> None:
    """Drains a stream, and waits for its end."""
    with JobClient(address) as client:
        client.drain_job(job_id)
        state = client.wait_until_finish(job_id, _SECONDS)
        assert state in (JobState.DRAINED, JobState.DONE), list(client.follow_messages(job_id, 5))[
            -3:
        ]


def run_disturbed(
    sink: Any,
    every: int | None,
    temporary: Path,
    folder: Path,
    kills: int,
    seed: int,
    name_window: Callable[[Any], str] | None = None,
    database: DatabaseServer | None = None,
    probability: float = PROBABILITY,
) -> dict[str, int]:
    """Runs a stream into a sink with kills, and returns the numbers of kills and repeated commits."""
    calls = folder / "calls.txt"
    calls.touch()
    with lives(temporary, folder / "state", "--without-spark") as running:
        pipelines = Pipelines(running.address, "embedded", ())
        pipeline = pipelines.new("--streaming")
        build_stream(pipeline, wrap_sink(sink, calls, kills, probability), every, name_window)
        job = pipelines.job(pipeline)
        done = disturb(running, kills, seed, database)
        time.sleep(1)
        drain(running.address, job.job_id)
    return {
        **done,
        "repeated": count_repeated_commits(calls),
        "calls": len(calls.read_text().splitlines()),
    }


def check_numbers(found: list[tuple[int, int]]) -> None:
    """Checks that the numbers of each source are a prefix, each once."""
    counts = Counter(found)
    doubled = [number for number, times in counts.items() if times > 1]
    assert doubled == []
    for source in {source for source, _ in found}:
        numbers = sorted(number for one, number in found if one == source)
        assert numbers == list(range(len(numbers))), "numbers are missing"
