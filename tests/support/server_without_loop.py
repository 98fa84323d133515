"""Server without the loop inside a task: all bundles run on lanes."""

from __future__ import annotations

import sys

from beam_runner_engine.dispatch.lease import SchedulerLease
from beam_spark_executor.cli import main

SchedulerLease.can_start_loop = lambda lease, now: False  # type: ignore[method-assign]
sys.exit(main())
