"""The entry point of ``beam-spark-jobserver``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beam_runner_server import cli

from beam_spark_executor.program import SparkProgram


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command ``beam-spark-jobserver``; returns the exit code (see `beam_runner_server.cli.main`)."""
    return cli.main(arguments, SparkProgram())


if __name__ == "__main__":
    sys.exit(main())
