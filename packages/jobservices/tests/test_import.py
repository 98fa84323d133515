"""Tests that the package imports neither Spark nor upper layers."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {others!r}:
            raise ImportError(f"{{name}} must not be needed")

sys.meta_path.insert(0, Refuse())
import importlib, pkgutil
import beam_runner_jobservices
for module in pkgutil.walk_packages(beam_runner_jobservices.__path__, "beam_runner_jobservices."):
    importlib.import_module(module.name)
assert not {others!r} & {{name.partition(".")[0] for name in sys.modules}}
print("imported")
"""

OTHERS = {
    "beam_runner_worker",
    "beam_spark_executor",
    "pyspark",
}


def test_jobservices_import_without_spark_and_upper_layers():
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(others=OTHERS)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout == "imported\n", ran.stderr
