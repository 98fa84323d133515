"""Import path of the modules of the outages."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kills"), str(HERE.parent / "support")]
