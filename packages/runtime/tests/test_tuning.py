"""Tests that the page of tuning numbers lists each number with its value and its description."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from beam_runner_runtime.tuning import TUNING, SchedulingConstants

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "scheduling-constants.md"


def shown(name: str, value: float) -> str:
    """Returns a number with its unit."""
    if name.endswith("_bytes"):
        return f"{value / 1024:g} KiB" if value < 1 << 20 else f"{value / (1 << 20):g} MiB"
    unit = " ms" if name.endswith("_ms") else " s" if name.endswith("_seconds") else ""
    return f"{value:,g}{unit}"


def test_tuning_page_lists_every_number() -> None:
    said = dict(re.findall(r"^ {8}(\w+): (.*)$", str(SchedulingConstants.__doc__), re.MULTILINE))
    table = [
        f"| `{field.name}` | {shown(field.name, getattr(TUNING, field.name))} | {said[field.name]} |"
        for field in attrs.fields(SchedulingConstants)
    ]
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == table, (
        "docs/reference/scheduling-constants.md is to have these rows:\n" + "\n".join(table)
    )
