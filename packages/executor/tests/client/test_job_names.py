from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TELL = "from beam_spark_executor.client.job_names import make_default_job_name\nprint(make_default_job_name())\n"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["count_words.py"], "count_words"),
        (["-m", "package.counting"], "counting"),
        (["-m", "package"], "package"),
        (["-c", TELL], "interactive"),
    ],
)
def test_job_name_has_program_name_and_time(
    arguments: list[str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "package").mkdir()
    for file in ("count_words.py", "package/counting.py", "package/__main__.py"):
        (tmp_path / file).write_text(TELL)
    command = [sys.executable, *arguments]
    told = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert re.fullmatch(rf"{name}-\d{{8}}-\d{{6}}\n", told.stdout)
