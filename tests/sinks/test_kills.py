"""Tests that exactly-once sinks contain each number once after kills and repeated commits."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from crashing_sinks import CarelessSqlSink
from disturbances import check_numbers, run_disturbed
from sinks_under_test import SINKS, SinkUnderTest, make_sql_sink, read_sql
from tables_under_test import CARELESS_TABLE, TABLES

pytestmark = pytest.mark.timeout(1500)
ALL = {**SINKS, **TABLES}
CONTROLS = {
    "sql": SinkUnderTest(partial(make_sql_sink, kind=CarelessSqlSink), read_sql),
    "iceberg": CARELESS_TABLE,
}


@pytest.mark.parametrize("name", ALL)
def test_exactly_once_sink_contains_each_number_once_after_killed_and_suspended_processes(
    name: str, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    tested = ALL[name]
    outside = tmp_path / "outside"
    outside.mkdir()
    sink = tested.make(outside)
    done = run_disturbed(
        sink,
        tested.every,
        temporary,
        tmp_path,
        kills,
        seed,
        tested.name_window,
        probability=tested.probability,
    )
    found = tested.read(outside)
    print(f"SINK {json.dumps({'sink': name, 'seed': seed, 'elements': len(found), **done})}")
    check_numbers(found)
    tested.check(outside)
    assert len(found) > 100
    assert done["repeated"] > 0


@pytest.mark.parametrize("name", CONTROLS)
def test_sink_without_the_check_for_repeated_commits_writes_numbers_twice(
    name: str, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    """Checks that the kills of this test do repeat commits, so that a sink without the check writes twice."""
    outside = tmp_path / "outside"
    outside.mkdir()
    tested = CONTROLS[name]
    sink = tested.make(outside)
    done = run_disturbed(
        sink, tested.every, temporary, tmp_path, kills, seed, probability=tested.probability
    )
    counts = Counter(tested.read(outside))
    doubled = sum(times > 1 for times in counts.values())
    print(
        f"SINK {json.dumps({'sink': f'careless {name}', 'seed': seed, 'doubled': doubled, **done})}"
    )
    assert done["repeated"] > 0
    assert max(counts.values()) > 1
