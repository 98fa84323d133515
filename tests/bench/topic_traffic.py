"""Records with their sending times in a topic, and their arrivals in another topic.

The value of a sent record is its number and its sending time. Each compared program counts the records of a
key in state, and appends the count to the value.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
KEYS = 1000
_SECONDS = 60.0
_MOST = 1000
_LOOK_SECONDS = 0.05
_AHEAD = 200_000
"""Number of records that a sender without a rate is ahead of the arrivals."""


def create_topic(address: str, name: str) -> str:
    """Creates a topic with a unique name, and returns the name."""
    topic = f"{name}-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_SECONDS)
    return topic


class Arrivals:
    """Committed records of a topic, which a thread reads until `close`.

    Attributes:
        distinct: number of records without doubled ones.
        doubled: number of records that had arrived before.
        wrong: number of records whose key had the same count before, which exact state never gives.
        moved: number of records with another count than the sender's order gives.
        latencies: seconds from the sending of a record to its arrival, in the order of the arrivals.
        last_at: time of the last arrival (s, monotonic).
    """

    def __init__(self, address: str, topic: str) -> None:
        self.distinct = self.doubled = self.wrong = self.moved = 0
        self.latencies = array("f")
        self.last_at = 0.0
        self._seen, self._seen_counts = bytearray(), bytearray()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "arrivals",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, name="arrivals", daemon=True)
        self._thread.start()

    def wait_for(self, count: int, seconds: float) -> bool:
        """Waits for a number of distinct records; returns False after the time limit."""
        deadline = time.monotonic() + seconds
        while self.distinct < count:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def close(self) -> None:
        """Ends the thread."""
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ends.is_set():
            # A call for many records waits for all of them.
            first = self._consumer.poll(_LOOK_SECONDS)
            if first is None:
                continue
            events = [first, *self._consumer.consume(_MOST, 0)]
            clock = time.time()
            for event in events:
                if event.error() is None:
                    number, sent, count = event.value().split()
                    self._add(int(number), int(count), clock - float(sent))
            self.last_at = time.monotonic()

    def _add(self, number: int, count: int, latency: float) -> None:
        if not _mark(self._seen, number):
            self.doubled += 1
            return
        self.latencies.append(latency)
        self.wrong += not _mark(self._seen_counts, (count - 1) * KEYS + number % KEYS)
        self.moved += count != number // KEYS + 1
        self.distinct += 1


def _mark(seen: bytearray, place: int) -> bool:
    """Creates a marker at a place. Returns False if the marker exists already."""
    if place >= len(seen):
        seen.extend(bytes(place + _AHEAD - len(seen)))
    if seen[place]:
        return False
    seen[place] = 1
    return True


class Sender:
    """Sender of numbered records to a topic."""

    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 2}
        )
        self.sent = 0

    def send(self, count: int) -> None:
        """Sends records without a pause, and waits until the broker has them."""
        for _ in range(count):
            self._send_one()
        self._producer.flush(_SECONDS)

    def send_at_rate(self, rate: float, seconds: float) -> None:
        """Sends records at a rate per second."""
        began = time.monotonic()
        for number in range(int(rate * seconds)):
            pause = began + number / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            self._send_one()
            self._producer.poll(0)
        self._producer.flush(_SECONDS)

    @contextmanager
    def keep_ahead(self, arrivals: Arrivals) -> Iterator[None]:
        """Sends records during a context, so that the program always has a backlog."""
        ends = threading.Event()

        def run() -> None:
            while not ends.is_set():
                if self.sent - arrivals.distinct < _AHEAD:
                    self.send(_MOST)
                else:
                    ends.wait(_LOOK_SECONDS)

        thread = threading.Thread(target=run, name="sender", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()

    def _send_one(self) -> None:
        key, value = b"%d" % (self.sent % KEYS), b"%d %r" % (self.sent, time.time())
        while True:
            try:
                self._producer.produce(self._topic, value, key)
                break
            except BufferError:  # The queue of the client is full.
                self._producer.poll(_LOOK_SECONDS)
        self.sent += 1
