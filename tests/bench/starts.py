"""Cost of starts: a trivial pipeline in a new program on several runners, and in a warm program: ``nox
-s bench_starts``.

All processes exit before the next measurement. The cost is wall seconds, and CPU seconds of all
processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from costs import cost_of
from targets import server_process

RUNNER = "--runner=beam_spark_executor.BeamSparkRunner"
ON = "--spark_master_url=local[2]"
WARM = 9
"""Number of measured pipelines in a warm program, after the first."""


def trivial(*options: str) -> None:
    """Builds a pipeline that doubles and sums one element."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    with beam.Pipeline(options=PipelineOptions(list(options))) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(lambda x: x * 2) | beam.CombineGlobally(sum)


def plain_spark() -> None:
    """Doubles and sums one element with Spark alone."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    assert session.sparkContext.parallelize([1], 1).map(lambda x: x * 2).sum() == 2


def warm(endpoint: str) -> None:
    """Runs pipelines alternately on this program's server and on an existing server; writes a row for each."""
    ways = {"its own": (RUNNER, ON), "one that was there": (RUNNER, f"--job_endpoint={endpoint}")}
    told: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(WARM + 1):
        for way, options in ways.items():
            began, used = time.perf_counter(), time.process_time()
            trivial(*options)
            told[way].append((time.process_time() - used, time.perf_counter() - began))
    print("| warm, by a server | CPU s of the client | wall s |\n|---|---|---|")
    for way, found in told.items():
        cpu, wall = (statistics.median(each) for each in zip(*found[1:], strict=True))
        print(f"| {way} | {cpu:.2f} | {wall:.2f} |")


PROGRAMS: dict[str, Callable[..., None]] = {"trivial": trivial, "spark": plain_spark, "warm": warm}


def cold(prism: str | None) -> dict[str, list[str]]:
    """Returns the arguments of the programs by title."""
    ways = {
        "DirectRunner": ["trivial", "--runner=DirectRunner"],
        "BeamSparkRunner": ["trivial", RUNNER, ON],
        "PySpark, without Beam": ["spark"],
    }
    if prism:
        ways["Prism"] = ["trivial", "--runner=PrismRunner", f"--prism_location={prism}"]
    return ways


def main() -> None:
    """Writes the table, or runs one of the programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prism", default=shutil.which("prism"), help="Prism's binary")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.program:
        PROGRAMS[arguments.program[0]](*arguments.program[1:])
        return
    ways = cold(arguments.prism)
    costs: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="beam-starts-") as folder:
        for _ in range(arguments.rounds):
            for way, program in ways.items():
                environment = {"PYSPARK_PYTHON": sys.executable, "TMPDIR": folder}
                costs.setdefault(way, []).append(
                    cost_of([sys.executable, __file__, *program], environment)
                )
                print(way, costs[way][-1], os.getloadavg(), file=sys.stderr, flush=True)
    print("| cold | CPU s | wall s |\n|---|---|---|")
    for way, found in costs.items():
        cpu, wall = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"| {way} | {cpu:.1f} | {wall:.1f} |", flush=True)
    with server_process(("--spark-master-url=local[2]",)) as server:
        subprocess.run([sys.executable, __file__, "warm", server.address], check=True)


if __name__ == "__main__":
    main()
