"""How Hypothesis runs here: not in a hurry, since the machine may do other things at the time.

About 100 examples a test by default; `BEAM_ENGINE_RUNS=10000` is the long profile.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("BEAM_ENGINE_RUNS", "100")),
)
settings.load_profile("patient")
