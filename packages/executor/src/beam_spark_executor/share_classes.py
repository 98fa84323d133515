"""``beam-spark-jobserver share-classes``: makes a file that halves the CPU time of Spark's start."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from beam_runner_model.errors import Unavailable
from beam_runner_runtime import logs

_LIMIT_SECONDS = 600.0


def main(arguments: Sequence[str]) -> int:
    """Makes the file and prints its path; returns the exit code, 1 if no file was made."""
    argparse.ArgumentParser(
        prog="beam-spark-jobserver share-classes",
        description="Runs Spark once and has Java write the classes that it loads to a"
        " file of about 120 MB in Spark's folder. Servers use this file"
        " automatically. Run this command again after you install another"
        " version of Java or PySpark: servers ignore a file of other"
        " versions.",
    ).parse_args(arguments)
    logs.configure_logging("error", "text")
    try:
        print(share_classes())
    except (Unavailable, OSError) as error:
        sys.stderr.write(f"beam-spark-jobserver: {error}\n")
        return 1
    return 0


def share_classes() -> Path:
    """Makes the file, or replaces it, and returns its path. Takes about 30 s of CPU time.

    Raises:
        Unavailable: Spark doesn't start, or Java made no file.
        OSError: Spark's folder isn't writable.
    """
    from beam_spark_executor.spark.class_sharing import (
        archive_creation_options,
        shared_classes_file,
    )

    file = shared_classes_file()
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.touch()
    unfinished.unlink()
    try:
        _run_spark(archive_creation_options(unfinished))
        if not unfinished.exists():
            raise Unavailable(
                f"Java wrote no {file.name}: JREs without lib/server/classes.jsa can't"
                " write it. Install a JDK, or run `java -Xshare:dump` with this Java."
            )
        return unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def _run_spark(java_options: str) -> None:
    """Runs the operations of Spark that a server uses."""
    from beam_spark_executor.spark.session import RunningSpark
    from beam_spark_executor.spark.settings import SparkSettings

    conf = {"spark.driver.extraJavaOptions": java_options}
    spark = RunningSpark(SparkSettings(master="local[2]", conf=conf))
    spark.start()
    try:
        rows = spark.context.parallelize([(1, b""), (2, b"")], 2)
        rows.partitionBy(2).collect()
    finally:
        spark.stop(_LIMIT_SECONDS)
