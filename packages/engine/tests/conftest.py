"""Hypothesis profiles of these tests: about 100 examples per test; `BEAM_ENGINE_RUNS=10000` sets
more.
"""

from __future__ import annotations

import os

from hypothesis import settings

RUNS = int(os.environ.get("BEAM_ENGINE_RUNS", "100"))
settings.register_profile("engine", settings(), max_examples=RUNS)
settings.load_profile("engine")
