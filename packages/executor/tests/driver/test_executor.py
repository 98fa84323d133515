"""What the executor decides for a job before it runs."""

from __future__ import annotations

import pytest

from beam_spark_executor.driver.executor import shards_for


@pytest.mark.parametrize(
    ("cores", "many", "few"),
    [(1, 8, 2), (2, 16, 4), (8, 64, 16), (16, 64, 32), (32, 64, 64), (100, 200, 200)],
)
def test_many_small_shards_but_not_more_than_help(cores: int, many: int, few: int) -> None:
    assert shards_for(cores, few=False) == many
    assert shards_for(cores, few=True) == few
