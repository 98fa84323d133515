"""How many examples Hypothesis tries here: about 100 a test; `BEAM_ENGINE_RUNS=10000` is the long profile."""

from __future__ import annotations

import os

from hypothesis import settings

RUNS = int(os.environ.get("BEAM_ENGINE_RUNS", "100"))
settings.register_profile("engine", settings(), max_examples=RUNS)
settings.load_profile("engine")
