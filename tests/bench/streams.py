"""Stream benchmark of this runner, Prism and Spark's `transformWithState`, with its table: ``nox -s
bench_streams -- --write``.

Two workloads count the same numbers by key in state. The first measures the latency behind the
shuffle at 50 elements/s. The second measures the throughput if all elements are available. The
targets are warm and alternate.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench import Line, latency, measure, write
from spark_counts import run_by_spark
from targets import Target, portable, prism_process, server_process

OURS = "this runner, embedded"
LATE, MANY = "polling", "keyed_count"


@contextmanager
def targets_of_streams(prism: str | None) -> Iterator[list[Target]]:
    """Starts the targets for the block; without its binary, Prism is left out."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")))
        ours = stack.enter_context(server_process(())).address
        targets = [
            Target(OURS, portable(ours, ""), folder),
            Target("this runner, LOOPBACK", portable(ours, "LOOPBACK"), folder),
            Target("Spark, transformWithState", (), folder, run_by_spark),
            Target("Spark, transformWithStateInPandas", ("pandas",), folder, run_by_spark),
        ]
        if prism is not None:
            address = stack.enter_context(prism_process(prism))
            targets.append(Target("Prism, LOOPBACK", portable(address, "LOOPBACK"), folder))
        for target in targets:
            stack.callback(target.close)
        yield targets


def row(title: str, late: Line, many: Line) -> str:
    """Returns the row of a target; a cell is empty if the target failed."""
    cells = [title, latency(late.outcomes[title]), "", ""]
    ours, found = (
        statistics.median(outcome.seconds for outcome in outcomes) if outcomes else None
        for outcomes in (many.outcomes[OURS], many.outcomes[title])
    )
    if found is not None:
        cells[2] = f"{many.elements / found:,.0f}"
        cells[3] = "" if ours is None else f"{ours / found:.2f}"
    return f"| {' | '.join(cells)} |"


def text_of(
    lines: list[Line], titles: list[str], loads: list[float], arguments: argparse.Namespace
) -> str:
    late, many = lines
    about = (
        f"The machine had {os.cpu_count()} cores, a load of {min(loads):.0f} to {max(loads):.0f}, "
        f"Python {platform.python_version()}, Beam {version('apache-beam')} and PySpark {version('pyspark')}. "
        f"The table has medians of {arguments.rounds} warm, interleaved rounds. Latency is measured with "
        f"{late.elements:,} numbers at 50 per second, from the fifth second on. Throughput is measured with "
        f"{many.elements:,} numbers without a rate limit, from submission to the end of the job."
    )
    heads = [
        "by",
        "latency p50 / p90, ms",
        "numbers counted per second",
        f"relative to {OURS}",
    ]
    table = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    table += [row(title, late, many) for title in titles]
    return "\n".join([about, "", *table, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of both workloads' sizes")
    parser.add_argument("--rounds", type=int, default=3, help="that count")
    parser.add_argument("--seconds", type=float, default=300.0, help="limit for one run")
    parser.add_argument("--prism", default=shutil.which("prism"), help="Prism's binary")
    parser.add_argument("--write", action="store_true", help="write into performance.md")
    arguments = parser.parse_args()
    lines, loads = [], [os.getloadavg()[0]]
    with targets_of_streams(arguments.prism) as targets:
        titles = [target.title for target in targets]
        for name in (LATE, MANY):
            lines.append(
                measure(name, arguments.scale, targets, arguments.rounds, arguments.seconds, OURS)
            )
            loads.append(os.getloadavg()[0])
    text = text_of(lines, titles, loads, arguments)
    print(text)
    if arguments.write:
        write(text, "streams")
    if not all(line.outcomes[OURS] for line in lines):
        raise SystemExit("ours failed a workload")


if __name__ == "__main__":
    main()
