"""Import paths of the shared test modules."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(_TESTS / "support"), str(_TESTS / "doubles")]
