"""The server as a script for ``spark-submit``, in a folder that may be on the import path."""

from __future__ import annotations

import sys

from beam_spark_executor.cli import main

if __name__ == "__main__":
    sys.exit(main())
