"""Throughput from Kafka to Kafka with state while processes are killed, relative to the throughput without
kills: ``nox -s bench_kafka_kills -- --minutes 10 --kill-every 30``.

The sender stays ahead of the stream, so the stream always has a backlog. Servers and workers are killed in
turns. Each record must arrive once, with another count than the other records of its key. After kills,
records of a key can have another order than in the source, which the program prints.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import argparse

from chaos import strike
from java_servers import fetch_class_path
from job_server import UNCHECKED
from kafka_broker import POM, KafkaBroker
from kafka_programs import pickle_by_value, submit_pipeline
from lives import Lives, lives
from topic_traffic import Arrivals, Sender, create_topic

_WARM = 50_000
_WARM_SECONDS = 120.0
_END_SECONDS = 300.0
_KINDS = ("worker", "server")


def measure_rate(
    running: Lives, address: str, seconds: float, kill_every: float | None, seed: int
) -> dict[str, float]:
    """Runs the stream for a time, and returns its rate with the numbers of lost and doubled records."""
    source, target = create_topic(address, "source"), create_topic(address, "target")
    sender, arrivals = Sender(address, source), Arrivals(address, target)
    result = submit_pipeline(running.address, address, source, target)
    try:
        with sender.keep_ahead(arrivals):
            arrivals.wait_for(_WARM, _WARM_SECONDS)
            first, began = arrivals.distinct, time.monotonic()
            if kill_every is not None:
                kill_until(running, began + seconds, kill_every, seed)
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            rate = (arrivals.distinct - first) / (time.monotonic() - began)
        arrivals.wait_for(sender.sent, _END_SECONDS)
    finally:
        result.cancel()
        arrivals.close()
    return {
        "records": sender.sent,
        "records/s": round(rate),
        "lost": sender.sent - arrivals.distinct,
        "doubled": arrivals.doubled,
        "wrong counts": arrivals.wrong,
        "out of order": arrivals.moved,
    }


def kill_until(running: Lives, end: float, every: float, seed: int) -> None:
    """Kills a worker or the server after each interval."""
    chance = random.Random(seed)
    number = 0
    while time.monotonic() + every < end:
        time.sleep(every)
        strike(running, _KINDS[number % len(_KINDS)], chance.randrange(100))
        number += 1


@contextmanager
def broker_of_bench() -> Iterator[KafkaBroker]:
    """Yields a broker."""
    with tempfile.TemporaryDirectory(prefix="bench", ignore_cleanup_errors=True) as name:
        broker = KafkaBroker(Path(name), fetch_class_path(POM, Path(name)))
        try:
            yield broker
        finally:
            broker.kill()


def parse() -> argparse.Namespace:
    """Returns the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="time with, and without kills")
    parser.add_argument("--kill-every", type=float, default=30.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of workers")
    return parser.parse_args()


def main() -> None:
    """Runs the stream without kills and with kills, and prints both results.

    Raises:
        SystemExit: A record was lost or doubled, or has a wrong count.
    """
    arguments = parse()
    pickle_by_value()
    seconds = 60 * arguments.minutes
    results = {}
    with broker_of_bench() as broker, tempfile.TemporaryDirectory(prefix="t") as name:
        for kill_every in (None, arguments.kill_every):
            state = Path(name) / f"state{kill_every}"
            temporary = Path(name) / f"t{kill_every}"
            temporary.mkdir()
            flags = ("--without-spark",)
            with lives(temporary, state, *flags, environment=UNCHECKED) as running:
                found = measure_rate(running, broker.address, seconds, kill_every, arguments.seed)
                found |= dict(running.kills)
            print(json.dumps({"kill every": kill_every, **found}), flush=True)
            results[kill_every] = found
    without, with_kills = results.values()
    print(f"with kills / without kills: {with_kills['records/s'] / without['records/s']:.2f}")
    if any(
        found[name] for found in results.values() for name in ("lost", "doubled", "wrong counts")
    ):
        raise SystemExit("the results aren't exact")


if __name__ == "__main__":
    main()
