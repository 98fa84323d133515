"""Tests of the programs in examples/gallery, each run as its user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from job_server import JobServerProcess

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
PAGE = GALLERY.parents[1] / "docs" / "tutorial" / "gallery.md"
OUTPUTS = {
    "word_count": ["be 2", "is 1", "not 1", "or 1", "question 1", "that 1", "the 1", "to 2"],
    "join": ["Ada book", "Ada lamp", "Tim pen", "unknown cup"],
    "side_input": ["apple 9", "pear 4"],
    "sessions": ["ada 0-50 2", "ada 100-130 1", "tim 200-230 1", "tim 5-35 1"],
    "late_data": ["a 1 LATE", "a 1 ON_TIME", "a 2 EARLY"],
    "deduplicate": ["e1 login", "e2 click", "e3 logout"],
    "timers": ["a 10", "a 3", "b 5"],
    "splittable": ["4999950000"],
    "stream": ["30"],
    "dead_letters": ["ada", "not json", "tim"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_gallery_program_writes_its_output(
    name: str, server: JobServerProcess, tmp_path: Path
) -> None:
    options = ("--runner=beam_spark_executor.BeamSparkRunner", f"--job_endpoint={server.address}")
    command = (sys.executable, f"{GALLERY / name}.py", str(tmp_path / "out"), *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (
        sorted("".join(file.read_text() for file in tmp_path.iterdir()).splitlines())
        == OUTPUTS[name]
    )


def test_gallery_page_lists_every_program() -> None:
    names = {file.stem for file in GALLERY.glob("*.py")}
    assert names == set(OUTPUTS)
    page = PAGE.read_text("utf-8")
    assert all(f"gallery/{name}.py)" in page for name in names)
