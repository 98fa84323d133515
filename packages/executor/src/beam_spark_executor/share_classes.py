"""Command ``beam-spark-jobserver share-classes``: makes a file of Java classes, which halves the
CPU time of Spark's start.
"""

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
    """Creates the archive of Java classes, and prints the path of the archive. Returns the exit
    code: 1 if there is no archive.
    """
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
    """Creates or replaces the archive of Java classes, and returns the path of the archive. Takes
    about 30 s of CPU time.

    Raises:
        Unavailable: Spark doesn't start, or Java made no file.
        OSError: Spark's folder isn't writable.
    """
    from beam_spark_executor.spark.class_sharing import (
        find_shared_classes_file,
        make_archive_creation_options,
    )

    file = find_shared_classes_file()
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.touch()
    unfinished.unlink()
    try:
        _run_spark(make_archive_creation_options(unfinished))
        if not unfinished.exists():
            raise Unavailable(
                f"Java wrote no {file.name}: JREs without lib/server/classes.jsa can't"
                " write it. Install a JDK, or run `java -Xshare:dump` with this Java."
            )
        return unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def _run_spark(java_options: str) -> None:
    """Starts Spark and runs typical operations, so that Java records the classes that a server loads."""
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
