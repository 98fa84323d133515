"""Script that runs the job server under ``spark-submit``. Its folder can be on the import path without side effects."""

from __future__ import annotations

import sys

from beam_spark_executor.cli import main

if __name__ == "__main__":
    sys.exit(main())
