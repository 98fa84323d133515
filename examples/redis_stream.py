"""Reads a stream of Redis with a consumer group, and counts the words of each message once.

To run the program, install ``beam-spark-executor`` and ``redis``, and start a Redis server:

    python3 examples/redis_stream.py redis://localhost:6379 --runner=beam_spark_executor.BeamSparkRunner

The program ends when you drain its job.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import redis
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.deduplicate import DeduplicatePerKey
from beam_spark_io import QueueMessage, QueueUnavailable, ReadFromQueue

REDELIVERY_SECONDS = 60.0
DEDUPLICATION_SECONDS = 3600
_WAIT_MILLISECONDS = 200


class RedisStream:
    """Queue that is a stream of Redis, read by a consumer group.

    Args:
        url: URL of the server.
        stream: key of the stream.
        group: name of the consumer group; all jobs with this name share the messages.
        redelivery: seconds after which a message without acknowledgement is delivered again. Choose more
            seconds than a bundle needs until its commit.
    """

    def __init__(
        self, url: str, stream: str, group: str, redelivery: float = REDELIVERY_SECONDS
    ) -> None:
        self.url = url
        self.stream = stream
        self.group = group
        self.redelivery = redelivery

    def create_consumer(self) -> RedisConsumer:
        return RedisConsumer(self)


class RedisConsumer:
    """Member of the consumer group."""

    def __init__(self, queue: RedisStream) -> None:
        self._queue = queue
        self._name = uuid.uuid4().hex
        self._client: Any = redis.Redis.from_url(queue.url, socket_timeout=10)
        self._position: bytes | str = "0-0"
        try:
            with convert_outages(queue.url):
                self._client.xgroup_create(queue.stream, queue.group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):  # the group exists
                raise

    def receive(self, most: int) -> Sequence[QueueMessage]:
        with convert_outages(self._queue.url):
            entries = self._claim_lost(most) or self._read_new(most)
        return [QueueMessage(number.decode(), fields) for number, fields in entries]

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        self._client.xack(self._queue.stream, self._queue.group, *(one.id for one in messages))

    def close(self) -> None:
        self._client.close()

    def _claim_lost(self, most: int) -> list[tuple[bytes, Any]]:
        """Takes over messages of consumers that haven't acknowledged them in time."""
        queue = self._queue
        reply = self._client.xautoclaim(
            *(queue.stream, queue.group, self._name, int(1000 * queue.redelivery)),
            start_id=self._position,
            count=most,
        )
        self._position = reply[0]
        return [(number, fields) for number, fields in reply[1] if number is not None]

    def _read_new(self, most: int) -> list[tuple[bytes, Any]]:
        queue = self._queue
        reply = self._client.xreadgroup(
            *(queue.group, self._name, {queue.stream: ">"}), count=most, block=_WAIT_MILLISECONDS
        )
        entries: list[tuple[bytes, Any]] = []
        for _, found in reply or ():
            entries += found
        return entries


@contextmanager
def convert_outages(url: str) -> Iterator[None]:
    """Converts errors of a connection, so that the job waits for the server."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise QueueUnavailable(f"Redis at {url} doesn't respond: {error}") from error


def main(url: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions([*options, "--streaming"])) as pipeline:
        (
            pipeline
            | ReadFromQueue(RedisStream(url, "lines", "word-count"))
            | DeduplicatePerKey(processing_time_duration=DEDUPLICATION_SECONDS)
            | "Line" >> beam.MapTuple(lambda _, fields: fields[b"line"].decode())
            | "Length" >> beam.Map(lambda line: len(line.split()))
            | "Print" >> beam.Map(print)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
