"""The server as ``spark-submit`` wants it, which takes files only; in a folder that may be on the path of modules."""

from __future__ import annotations

import sys

from beam_spark_executor.cli import main

if __name__ == "__main__":
    sys.exit(main())
