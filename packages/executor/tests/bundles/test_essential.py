from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import builtins, sys, time
from beam_spark_executor.bundles.essential import start_essential

def work():
    if sys.argv[1] == "breaks":
        for name in [name for name in vars(builtins) if name[0] != "_"]:
            setattr(builtins, name, None)
        len([])
    elif sys.argv[1] == "exits":
        raise SystemExit(0)

start_essential(work, "work")
time.sleep(3 if sys.argv[1] == "ends" else 600)
"""


@pytest.mark.parametrize(("what", "code"), [("breaks", 1), ("exits", 1), ("ends", 0)])
def test_the_process_ends_with_a_thread_that_breaks(what: str, code: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", CODE, what], env=environment, timeout=60)
    assert done.returncode == code
