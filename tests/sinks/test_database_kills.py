"""PostgreSQL and MariaDB get each number once, while they and the processes of the stream are killed and frozen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from beam_spark_io.sql.sink import SqlSink
from crashing_sinks import CarelessSqlSink
from database_servers import DatabaseServer
from disturbances import check_numbers, run_disturbed

pytestmark = pytest.mark.timeout(1500)
_SHARDS = 3


def make_sink(database: DatabaseServer, kind: type[SqlSink] = SqlSink) -> SqlSink:
    for statement in (
        "DROP TABLE IF EXISTS numbers",
        "DROP TABLE IF EXISTS beam_exactly_once",
        "CREATE TABLE numbers (source INTEGER NOT NULL, number INTEGER NOT NULL)",
    ):
        database.query(statement)
    columns = ("source", "number")
    return kind(database.connect, database.dialect, "numbers", columns, (), _SHARDS)


def read(database: DatabaseServer) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in database.query("SELECT source, number FROM numbers")]


def test_killed_and_frozen_database_has_each_number_once(
    database: DatabaseServer, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    sink = make_sink(database)
    done = run_disturbed(sink, None, temporary, tmp_path, kills, seed, database=database)
    found = read(database)
    facts = {"sink": database.dialect, "seed": seed, "elements": len(found), **done}
    print(f"SINK {json.dumps(facts)}")
    check_numbers(found)
    assert len(found) > 100
    assert done["repeated"] > 0


def test_database_sink_without_check_for_repeated_commits_writes_twice(
    database: DatabaseServer, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    """The control: without it, a harness that never repeats a commit would pass."""
    sink = make_sink(database, CarelessSqlSink)
    done = run_disturbed(sink, None, temporary, tmp_path, kills, seed, database=database)
    doubled = sum(times > 1 for times in Counter(read(database)).values())
    facts = {"sink": f"careless {database.dialect}", "seed": seed, "doubled": doubled, **done}
    print(f"SINK {json.dumps(facts)}")
    assert done["repeated"] > 0
    assert doubled > 0
