"""Tests that the examples of the README work as described."""

from __future__ import annotations

import re
from pathlib import Path

from .fakes import run_to_end

README = Path(__file__).parents[1] / "README.md"


def test_readme_example_follows_job(server, client, executor, pipeline, capsys):
    executor.on_start = run_to_end
    job_id = client.submit_job(pipeline)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [text for text in examples if "wait_until_finish" in text]
    exec(example.replace("localhost:8099", server.address), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{job_id} job DONE"
    assert "JobState.STOPPED" in lines[1]
    assert lines[-1] == "DONE"
