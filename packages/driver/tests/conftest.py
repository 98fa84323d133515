"""Import path of the shared test modules and of the planner's sample pipelines.

A transition that is missing from the shutdown table fails a test.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from beam_runner_runtime.shutdown.life import VARIABLE

_ROOT = Path(__file__).parents[3]
_FOLDERS = ("tests/support", "tests/doubles", "packages/planner/tests")
os.environ[VARIABLE] = "1"
sys.path[:0] = [str(_ROOT / folder) for folder in _FOLDERS]
