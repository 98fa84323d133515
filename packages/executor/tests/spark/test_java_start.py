from __future__ import annotations

import sys

import pytest

from beam_spark_executor.spark.java_start import find_worker_python


@pytest.mark.parametrize(
    ("conf", "variable", "python"),
    [
        ({}, None, sys.executable),
        ({}, "/usr/bin/python3", "/usr/bin/python3"),
        ({"spark.pyspark.python": "./environment/bin/python"}, None, "./environment/bin/python"),
        ({"spark.pyspark.python": "./first"}, "/second", "./first"),
    ],
)
def test_spark_workers_run_python_selected_by_user(
    conf: dict[str, str], variable: str | None, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    assert find_worker_python(conf) == python
