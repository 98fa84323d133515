"""Latency and throughput from Kafka to Kafka with state, of this runner and of Spark's Structured Streaming:
``nox -s bench_kafka -- --write``.

The programs run in turns. In each turn, a program first reads some records to warm up. Then records at a low
rate measure the latency, up to a reader of committed records of the target topic. Last, records without a
rate limit measure the throughput.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from bench import write
from java_servers import fetch_class_path
from kafka_broker import CONNECTOR, POM, KafkaBroker
from kafka_programs import pickle_by_value, start_query, start_spark, submit_pipeline
from targets import server_process
from topic_traffic import Arrivals, Sender, create_topic

OURS = "this runner, `WriteToKafka` (exactly-once)"
SPARK = "Spark, `transformWithStateInPandas`, Kafka sink (at-least-once)"
_WARM = 20_000
_WARM_SECONDS = 5.0
Start = Callable[[str, str], Callable[[], None]]
"""Function that starts a program from one topic to another, and returns a function that stops it."""


@attrs.frozen
class Measurement:
    """Measurement of one turn.

    Attributes:
        latencies: seconds from the sending of a record to its arrival.
        rate: arrived records per second without a rate limit.
    """

    latencies: tuple[float, ...]
    rate: float


def measure_turn(
    address: str, start: Start, arguments: argparse.Namespace, *, exactly_once: bool
) -> Measurement:
    """Runs a program once, and returns its latency and throughput.

    Raises:
        SystemExit: Records are missing, or doubled without need, or have wrong counts.
    """
    source, target = create_topic(address, "source"), create_topic(address, "target")
    sender, arrivals = Sender(address, source), Arrivals(address, target)
    stop = start(source, target)
    try:
        sender.send(_WARM)
        _wait(arrivals, sender)
        sender.send_at_rate(arguments.rate, _WARM_SECONDS)
        _wait(arrivals, sender)
        first = arrivals.distinct
        sender.send_at_rate(arguments.rate, arguments.latency_seconds)
        _wait(arrivals, sender)
        latencies = tuple(arrivals.latencies[first:])
        began = time.monotonic()
        sender.send(arguments.records)
        _wait(arrivals, sender)
        rate = arguments.records / (arrivals.last_at - began)
    finally:
        stop()
        arrivals.close()
    if exactly_once and (arrivals.doubled or arrivals.wrong or arrivals.moved):
        raise SystemExit(
            f"{arrivals.doubled} records are doubled, and {arrivals.moved} have a wrong count"
        )
    return Measurement(latencies, rate)


def _wait(arrivals: Arrivals, sender: Sender) -> None:
    if not arrivals.wait_for(sender.sent, 120):
        raise SystemExit(f"{arrivals.distinct} of {sender.sent} records arrived")


@contextmanager
def programs(broker: str, folder: Path, *, with_spark: bool) -> Iterator[dict[str, Start]]:
    """Starts the server of this runner, and Spark; yields the programs by title."""
    with server_process(("--without-spark",)) as server:

        def start_ours(source: str, target: str) -> Callable[[], None]:
            return submit_pipeline(server.address, broker, source, target).cancel

        if not with_spark:
            yield {OURS: start_ours}
            return
        session = start_spark(CONNECTOR)

        def start_spark_query(source: str, target: str) -> Callable[[], None]:
            return start_query(session, broker, source, target, folder).stop

        try:
            yield {OURS: start_ours, SPARK: start_spark_query}
        finally:
            session.stop()


def make_row(title: str, turns: list[Measurement]) -> str:
    """Returns the row of a program."""
    latencies = sorted(second for turn in turns for second in turn.latencies)
    p50, p99 = (latencies[int(part * (len(latencies) - 1))] * 1000 for part in (0.5, 0.99))
    rate = statistics.median(turn.rate for turn in turns)
    return f"| {title} | {p50:,.0f} / {p99:,.0f} | {rate:,.0f} |"


def make_text(turns: dict[str, list[Measurement]], arguments: argparse.Namespace) -> str:
    """Returns the table, with a text about the measurement."""
    about = (
        f"The machine had {os.cpu_count()} cores, Python {platform.python_version()}, Beam "
        f"{version('apache-beam')}, PySpark {version('pyspark')}, a load of {os.getloadavg()[1]:.0f}, and a broker on the same "
        f"cores. Turns of each program: {arguments.rounds}. Latency is measured at {arguments.rate:,} records per "
        f"second for {arguments.latency_seconds} seconds, and throughput is the median for "
        f"{arguments.records:,} records without a rate limit, from the first sending to the last arrival."
    )
    heads = ("by", "latency p50 / p99, ms", "records per second")
    table = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([about, "", *table, *(make_row(*row) for row in turns.items()), ""])


def parse() -> argparse.Namespace:
    """Returns the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each program")
    parser.add_argument("--rate", type=int, default=500, help="records per second for the latency")
    parser.add_argument("--latency-seconds", type=int, default=20, help="time at this rate")
    parser.add_argument("--records", type=int, default=100_000, help="number for the throughput")
    parser.add_argument("--only-ours", action="store_true", help="leave Spark out")
    parser.add_argument("--write", action="store_true", help="write into performance.md")
    return parser.parse_args()


def main() -> None:
    """Measures all programs in turns, and prints the table."""
    arguments = parse()
    pickle_by_value()
    with tempfile.TemporaryDirectory(prefix="bench", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        broker = KafkaBroker(folder, fetch_class_path(POM, folder))
        try:
            with programs(broker.address, folder, with_spark=not arguments.only_ours) as found:
                turns: dict[str, list[Measurement]] = {title: [] for title in found}
                for number in range(arguments.rounds):
                    titles = list(found) if number % 2 else list(reversed(found))
                    for title in titles:
                        turn = measure_turn(
                            broker.address, found[title], arguments, exactly_once=title == OURS
                        )
                        turns[title].append(turn)
                        print(make_row(title, [turn]), flush=True)
        finally:
            broker.kill()
    text = make_text(turns, arguments)
    print(text)
    if arguments.write:
        write(text, "kafka")


if __name__ == "__main__":
    main()
