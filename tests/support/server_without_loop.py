"""The server with the loop inside a task switched off: whatever runs, runs on lanes."""

from __future__ import annotations

import sys

from beam_spark_executor.cli import main
from beam_spark_executor.driver.loop_lease import LoopLease

LoopLease.may_begin = property(lambda lease: False)  # type: ignore[assignment]
sys.exit(main())
