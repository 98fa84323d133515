from __future__ import annotations

import pytest
from beam_runner_model.jobs import PRINT_PREFIX, Importance, JobMessage

from beam_spark_executor.client.printed_lines import read_printed_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"[Read/Map] {PRINT_PREFIX}hello] there", "[Read/Map] hello] there"),
        ("[Read/Map] a log line", None),
        (f"{PRINT_PREFIX}hello", "hello"),
        (f"an error\n[Step] {PRINT_PREFIX}x", None),
    ],
)
def test_printed_line_is_recognized_by_step_and_prefix(text: str, line: str | None) -> None:
    assert read_printed_line(JobMessage("1", "", Importance.BASIC, text)) == line
