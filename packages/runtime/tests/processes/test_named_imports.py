"""Tests of modules that workers import before the fork because an environment variable names them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FORKS = """
import os, sys
from beam_runner_runtime.processes import preload
preload.WARM_MODULES = ()
preload.import_worker_modules()
print(os.getpid(), flush=True)
for _ in range(3):
    if os.fork() == 0:
        import heavy
        print(heavy.imported_by, flush=True)
        os._exit(0)
    os.wait()
"""


def run(program: str, folder: Path, names: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "BEAM_RUNNER_IMPORTS": names, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_forked_processes_share_preloaded_modules(tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text("import os\nimported_by = os.getpid()\n")
    done = run(FORKS, tmp_path, " heavy, ")
    first, *forks = done.stdout.split()
    assert forks == [first] * 3, done.stderr
    assert not done.stderr
    imported_in_each = set(run(FORKS, tmp_path, "").stdout.split())
    assert len(imported_in_each) == 4


def test_preloaded_module_that_raises_is_reported_and_skipped(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_like_it")
    (tmp_path / "heavy.py").write_text("import os\nimported_by = os.getpid()\n")
    done = run(FORKS, tmp_path, "bad,heavy")
    first, *forks = done.stdout.split()
    assert forks == [first] * 3, done.stderr
    assert done.stderr == (
        "can't preload bad: ModuleNotFoundError(\"No module named 'nothing_like_it'\")\n"
    )
