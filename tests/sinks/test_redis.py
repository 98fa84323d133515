"""A stream of Redis is read once into a database, while workers, the server and Redis are killed.

The consumer is the one of ``examples/redis_stream.py``.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import redis
from apache_beam.transforms.deduplicate import DeduplicatePerKey
from beam_spark_io import QueueMessage, ReadFromQueue, WriteToSql
from chaos import strike
from disturbances import drain
from jobs import Pipelines, pickle_by_value
from lives import Lives, lives
from redis_server import RedisServer
from waiting import wait_until

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import redis_stream
from redis_stream import RedisConsumer, RedisStream

pytestmark = pytest.mark.timeout(900)
STREAM, GROUP = "numbers", "readers"
REDELIVERY = 2.0
KINDS = ("worker", "worker", "server", "redis")


class RecordingStream(RedisStream):
    """Stream that appends the ID of each received message to a file.

    Args:
        url: URL of the server.
        received: file for the IDs.
        is_early: whether messages are acknowledged when they are received, as a control.
    """

    def __init__(self, url: str, received: Path, *, is_early: bool = False) -> None:
        super().__init__(url, STREAM, GROUP, REDELIVERY)
        self._received = received
        self._is_early = is_early

    def create_consumer(self) -> Any:
        return RecordingConsumer(self, self._received, self._is_early)


class RecordingConsumer(RedisConsumer):
    """Consumer of a recording stream."""

    def __init__(self, queue: RedisStream, received: Path, is_early: bool) -> None:
        super().__init__(queue)
        self._received = received
        self._is_early = is_early

    def receive(self, most: int) -> Sequence[QueueMessage]:
        messages = super().receive(most)
        with self._received.open("a") as file:
            file.writelines(f"{one.id}\n" for one in messages)
        if self._is_early and messages:
            self.acknowledge(messages)
        return messages


@pytest.fixture(scope="module", autouse=True)
def _send_example_along() -> None:
    pickle_by_value(redis_stream.__name__)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    made = RedisServer(folder)
    try:
        yield made
    finally:
        made.kill()


class Producer:
    """Thread that appends numbers to the stream until its end. The IDs make repeated appends harmless."""

    def __init__(self, server: RedisServer) -> None:
        self.count = 0
        self._server = server
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        client = self._server.connect()
        while not self._ended.wait(0.005):
            try:
                client.xadd(STREAM, {"number": self.count}, id=f"{self.count + 1}-1")
            except redis.ResponseError as error:
                if "equal or smaller" not in str(error):  # an earlier append without a reply
                    raise
            except redis.RedisError:
                continue
            self.count += 1


def slow_down(fields: dict[bytes, bytes]) -> dict[str, int]:
    time.sleep(0.001)
    return {"number": int(fields[b"number"])}


def build(pipeline: beam.Pipeline, queue: RedisStream, file: Path, *, deduplicates: bool) -> None:
    messages = pipeline | ReadFromQueue(queue, readers=2, most=100, poll_seconds=0.1)
    if deduplicates:
        messages |= DeduplicatePerKey(processing_time_duration=600)
    connect = partial(sqlite3.connect, file, timeout=30, check_same_thread=False)
    _ = (
        messages
        | beam.Values()
        | beam.Map(slow_down)
        | WriteToSql(connect, "sqlite", "numbers", ["number"])
    )


def disturb(running: Lives, server: RedisServer, kills: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    for _ in range(kills):
        time.sleep(chance.uniform(0.3, 2.0))
        kind = chance.choice(KINDS)
        if kind == "redis":
            server.kill()
            time.sleep(chance.uniform(0.2, 1.0))
            server.start()
            done[kind] += 1
        else:
            done[kind] += strike(running, kind, chance.randrange(100))
    return done


def run_disturbed(
    queue: RecordingStream,
    server: RedisServer,
    temporary: Path,
    folder: Path,
    kills: int,
    seed: int,
    *,
    deduplicates: bool = True,
) -> tuple[list[int], dict[str, int]]:
    """Runs a stream from Redis into SQLite with kills; returns the written numbers and the facts of the run."""
    file = folder / "numbers.db"
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE numbers (number INTEGER)")
    with lives(temporary, folder / "state", "--without-spark") as running:
        producer = Producer(server)
        pipelines = Pipelines(running.address, "embedded", ())
        pipeline = pipelines.new("--streaming")
        build(pipeline, queue, file, deduplicates=deduplicates)
        job = pipelines.job(pipeline)
        done = disturb(running, server, kills, seed)
        producer.end()
        wait_until(lambda: is_read(server, producer.count), 120, lambda: describe(server))
        drain(running.address, job.job_id)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        numbers = [row[0] for row in connection.execute("SELECT number FROM numbers")]
    received = Counter(queue._received.read_text().split())
    redelivered = sum(received.values()) - len(received)
    return numbers, {**done, "sent": producer.count, "redelivered": redelivered}


def is_read(server: RedisServer, count: int) -> bool:
    """Returns whether the group has received all messages, and acknowledged them."""
    client = server.connect()
    with contextlib.suppress(redis.ResponseError):  # the group doesn't exist yet
        (group,) = client.xinfo_groups(STREAM)
        last = group["last-delivered-id"].decode()
        return group["pending"] == 0 and last == f"{count}-1"
    return False


def describe(server: RedisServer) -> str:
    return str(server.connect().xinfo_groups(STREAM))


def test_each_redis_message_is_counted_once_and_acknowledged(
    server: RedisServer, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    queue = RecordingStream(server.url, tmp_path / "received")
    found, facts = run_disturbed(queue, server, temporary, tmp_path, kills, seed)
    print(f"SINK {json.dumps({'source': 'redis', 'seed': seed, 'elements': len(found), **facts})}")
    assert sorted(found) == list(range(facts["sent"]))
    assert facts["redelivered"] > 0


def test_redis_stream_without_deduplication_loses_no_message(
    server: RedisServer, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    queue = RecordingStream(server.url, tmp_path / "received")
    found, facts = run_disturbed(
        queue, server, temporary, tmp_path, kills, seed, deduplicates=False
    )
    print(f"SINK {json.dumps({'source': 'redis, once or more', 'elements': len(found), **facts})}")
    assert set(found) == set(range(facts["sent"]))


def test_redis_consumer_that_acknowledges_before_the_commit_loses_messages(
    server: RedisServer, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    """The control: without it, a harness that never interrupts a bundle would pass."""
    queue = RecordingStream(server.url, tmp_path / "received", is_early=True)
    found, facts = run_disturbed(queue, server, temporary, tmp_path, kills, seed)
    lost = facts["sent"] - len(set(found))
    print(f"SINK {json.dumps({'source': 'redis, early', 'seed': seed, 'lost': lost, **facts})}")
    assert lost > 0
