"""Tests that specifications of tables are valid, or refused at construction."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from beam_runner_planner.table_specs import InvalidTableSpec, StreamSource, TableSource, TableTarget


@pytest.mark.parametrize(
    "spec",
    [
        TableSource("jdbc", options={"url": "u", "fetchsize": 3}, columns=["a"], where="a > 1"),
        TableTarget("parquet", "out", "append", {"header": True}, ["day"], "{}"),
        TableTarget("jdbc", mode="append", options={"url": "u", "dbtable": "sales.t"}),
        TableTarget(table="sales.t", partition_by=["day"]),
        StreamSource("kafka", columns=["value", "at"], timestamp="at", max_lateness=5, poll=10),
    ],
)
def test_table_payload_survives_round_trip(spec: TableSource | TableTarget) -> None:
    assert type(spec).from_payload(spec.to_payload()) == spec


def test_table_spec_text_hides_secrets() -> None:
    assert "hunter2" not in repr(TableSource("jdbc", options={"password": "hunter2"}))


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b"\xff", b'{"format": 1}'])
def test_table_payload_of_another_urn_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidTableSpec):
        TableSource.from_payload(payload)


SPECS = (
    TableSource("parquet", path="p"),
    StreamSource("kafka"),
    TableTarget("parquet", "p"),
    TableTarget("jdbc", options={"url": "u", "dbtable": "t"}),
    TableTarget(table="t"),
)
OTHERS = (None, True, 5, -1, 1.5, 10**30, float("inf"), "\ud800", [], [1], [[]], {}, {"a": 1})


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{type(spec).__name__}-{spec.format}")
def test_table_payload_with_wrong_types_is_refused_with_reason(
    spec: TableSource | TableTarget,
) -> None:
    told = json.loads(spec.to_payload())
    refused = 0
    for name in told:
        for other in (*OTHERS, ["\ud800"], {"a": "\ud800"}, {"\ud800": "a"}):
            try:
                found = type(spec).from_payload(json.dumps({**told, name: other}).encode())
            except InvalidTableSpec:
                refused += 1
                continue
            known = json.loads(found.to_payload())
            assert {key: type(value) for key, value in known.items()} == {
                key: type(value) for key, value in told.items()
            }
            assert found.name.encode()
    assert refused > 9 * len(told)


def test_table_payload_of_older_version_is_accepted_and_of_newer_version_refused() -> None:
    told = json.loads(TableTarget("csv", "/here").to_payload())
    del told["table"]
    assert TableTarget.from_payload(json.dumps(told).encode()) == TableTarget("csv", "/here")
    newer = json.dumps({**told, "sorted_by": ["a"]}).encode()
    with pytest.raises(
        InvalidTableSpec, match="attribute 'sorted_by', which this version doesn't know"
    ):
        TableTarget.from_payload(newer)


@pytest.mark.parametrize("payload", [b"[" * 100_000, b'{"format":' * 100_000])
def test_deeply_nested_table_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidTableSpec, match="doesn't describe a table to be read"):
        TableSource.from_payload(payload)


@pytest.mark.parametrize("more", ["/**/", "/* ", " ", "--\n", "reflect"])
def test_table_query_check_takes_linear_time(more: str) -> None:
    began = time.thread_time()
    assert TableSource(sql="SELECT reflect" + more * 100_000).sql
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "one of format, table and sql"),
        ({"format": "csv", "sql": "SELECT 1"}, "one of format, table and sql"),
        ({"table": "t", "path": "p"}, "path is set without a format: set format, too"),
        ({"sql": "SELECT java_method('java.lang.System', 'exit', 1)"}, "java_method calls Java"),
        ({"sql": "SELECT `Reflect` ('java.lang.System', 'exit', 1)"}, "Reflect calls Java"),
        ({"table": "t", "where": "try_reflect\n('a', 'b') = 1"}, "try_reflect calls Java"),
    ],
)
def test_invalid_table_source_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTableSpec, match=said):
        TableSource(**more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"table": "t"}, "a streaming read needs a format"),
        ({"sql": "SELECT 1"}, "a streaming read needs a format"),
        ({"format": "socket"}, "format socket delivers its data once"),
        ({"format": "json", "schema": "{}"}, "json files needs path="),
        ({"format": "JSON", "path": "p"}, "JSON files needs schema="),
        ({"format": "text", "path": "p", "options": {"CleanSource": "delete"}}, "cleanSource"),
        (
            {"format": "kafka", "columns": ["key"], "timestamp": "at"},
            "'at' must be one of the names in columns",
        ),
        ({"format": "kafka", "max_lateness": -1}, "from 0 seconds"),
        ({"format": "kafka", "poll": -1}, "from 0 seconds"),
        ({"format": "kafka", "where": "reflect('a', 'b') = 1"}, "reflect calls Java"),
    ],
)
def test_invalid_stream_source_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTableSpec, match=said):
        StreamSource(**more)


def test_stream_source_has_default_micro_batch_size_limits() -> None:
    assert StreamSource("Text", path="p").size_limits == {"maxFilesPerTrigger": "1000"}
    assert StreamSource("kafka").size_limits == {"maxOffsetsPerTrigger": "1000000"}
    assert StreamSource("rate").size_limits == {}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"format": "kafka", "path": "p"}, "format is 'kafka'; expected"),
        ({"format": "jdbc", "path": "p"}, "jdbc has no path and no partition_by"),
        ({"format": "jdbc", "options": {"dbtable": "t"}}, r"jdbc needs options\['url'\]"),
        ({"format": "jdbc", "options": {"url": "u"}}, r"jdbc needs options\['dbtable'\]"),
        (
            {"format": "jdbc", "options": {"url": "u", "dbTable": "t; DROP TABLE u"}},
            "expected the name of a table",
        ),
        (
            {"format": "jdbc", "options": {"url": "u", "dbtable": "t", "isolationLevel": "none"}},
            "isolationLevel",
        ),
        ({"format": "csv", "path": ""}, "csv needs a path"),
        ({"table": "t", "path": "p"}, "table and path are both set"),
        ({"table": "t", "format": "jdbc"}, "format is 'jdbc'; for a table"),
        ({}, "format is ''; expected"),
        (
            {"format": "csv", "path": "p", "mode": "replace"},
            "expected one of error, ignore, append",
        ),
    ],
)
def test_invalid_table_target_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTableSpec, match=said):
        TableTarget(**more)


def test_table_query_with_a_forbidden_function_name_but_no_call_is_accepted() -> None:
    assert TableSource(sql="SELECT 1 AS one", where="kind = 'reflect' AND (one = 1)").where
