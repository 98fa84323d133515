"""Server with changed shutdown limits: JSON in the environment contains the changed fields."""

from __future__ import annotations

import importlib
import json
import os
import sys

from beam_runner_runtime.shutdown.limits import LIMITS

for name, value in json.loads(os.environ["BEAM_TEST_LIMITS"]).items():
    assert hasattr(LIMITS, name), name
    setattr(LIMITS, name, value)

# Import the server after the change, because some modules read their limits when they are imported.
sys.exit(importlib.import_module("beam_spark_executor.cli").main())
