"""Lets the tests import what tests of several packages share, and the planner's sample pipelines."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_FOLDERS = ("tests/support", "tests/doubles", "packages/planner/tests")
sys.path[:0] = [str(_ROOT / folder) for folder in _FOLDERS]
