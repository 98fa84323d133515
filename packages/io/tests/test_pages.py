"""Tests that the examples of the pages about Delta and Iceberg tables build pipelines, without tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

FOLDER = Path(__file__).parents[3] / "docs" / "how-to"


@pytest.mark.parametrize("page", ["delta", "iceberg"])
def test_examples_in_documentation_build_pipelines(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text("utf-8")
    names: dict[str, Any] = {"__name__": __name__}
    for example in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(example, f"{page}.md", "exec"), names)
    pipelines = [value for value in names.values() if isinstance(value, beam.Pipeline)]
    assert pipelines
    assert all(pipeline.to_runner_api().components.transforms for pipeline in pipelines)
