"""Tests of `WriteToDelta`: repeated and concurrent commits, modes, columns, and refusals."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import pickle
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io import ReadFromDelta, WriteToDelta
from beam_spark_io.delta.files import make_statistics
from beam_spark_io.delta.sink import DeltaSink
from beam_spark_io.delta.table import DeltaTarget
from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId, SinkUnavailable
from beam_spark_io.schemas import make_declared_arrow_schema
from beam_spark_io.tables.writer import convert_rows

deltalake = pytest.importorskip("deltalake", reason="the extra `delta` isn't installed")

FIRST = CommitId("run", 0, 1, b"the first digest")
SECOND = CommitId("run", 0, 2, b"the second digest")


class Sale(typing.NamedTuple):
    id: int
    shop: str | None
    price: float


SALES = make_declared_arrow_schema(Sale)


def make_sink(table: Path, mode: str = "append", **more: Any) -> DeltaSink:
    defaults: dict[str, Any] = {
        "partition_by": (),
        "key": (),
        "adds_columns": False,
        "storage_options": {},
        "declared": SALES,
        **more,
    }
    return DeltaSink(DeltaTarget(str(table), mode, **defaults))


def make_rows(*numbers: int, shop: str | None = "a", price: float = 1.0) -> list[Sale]:
    return [Sale(number, shop, price) for number in numbers]


def stage(sink: DeltaSink, rows: Sequence[Any]) -> list[Any]:
    """Returns what a bundle with these rows hands to the committer."""
    writer = sink.create_writer("run")
    if writer is None:
        return list(rows)
    for row in rows:
        writer.write(row)
    return list(writer.close())


def commit(sink: DeltaSink, commit_id: CommitId, rows: Sequence[Any]) -> int:
    return sink.create_committer(commit_id.run, 0).commit(commit_id, stage(sink, rows))


def read(table: Path, *columns: str) -> list[Any]:
    found = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    rows = [tuple(row[name] for name in columns or ("id",)) for row in found]
    return sorted(rows, key=repr)


def find(table: Path, filters: Any) -> list[Any]:
    """Returns the rows of a condition, as `ReadFromDelta` reads them."""
    read = ReadFromDelta(str(table), filters=filters, batches=True)
    read._read_file.setup()
    tasks = pickle.loads(pickle.dumps(list(read._list_files.process(b""))))
    batches = (batch for task in tasks for batch in read._read_file.process(task))
    return [row for batch in batches for row in batch.to_pylist()]


def test_staged_rows_are_invisible_until_the_commit(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    commit(sink, FIRST, make_rows(1))
    staged = stage(sink, make_rows(2, 3))
    assert read(tmp_path) == [(1,)]
    assert sink.create_committer("run", 0).commit(SECOND, staged) == 2
    assert read(tmp_path) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_repeated_commit_writes_once(tmp_path: Path, mode: str) -> None:
    sink = make_sink(tmp_path, mode, key=("id",) if mode == "upsert" else ())
    staged = stage(sink, make_rows(1, 2))
    for _ in range(2):
        assert sink.create_committer("run", 0).commit(FIRST, staged) == 2
    assert read(tmp_path) == [(1,), (2,)]
    entries = deltalake.DeltaTable(str(tmp_path)).history()
    assert [entry.get("beam.commit") for entry in entries] == ["1", None]


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_second_committer_of_commit_writes_nothing(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(tmp_path, mode, key=("id",) if mode == "upsert" else ())
    commit(sink, FIRST, make_rows(1))
    first, second = (stage(sink, make_rows(2)) for _ in range(2))
    frozen = sink.create_committer("run", 0)
    read_mark = frozen._read_mark

    def read_mark_and_freeze(*arguments: Any) -> Any:
        """Lets another process make the same commit after this process has read the commit mark."""
        mark = read_mark(*arguments)
        sink.create_committer("run", 0).commit(SECOND, first)
        return mark

    monkeypatch.setattr(frozen, "_read_mark", read_mark_and_freeze)
    with pytest.raises(SinkUnavailable, match="(?i)concurrent transaction"):
        frozen.commit(SECOND, second)
    assert sink.create_committer("run", 0).commit(SECOND, second) == 1
    assert read(tmp_path) == ([(2,)] if mode == "overwrite" else [(1,), (2,)])


def test_delta_commit_of_another_job_in_between_is_not_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(tmp_path)
    commit(sink, FIRST, make_rows(1))
    committer = sink.create_committer("run", 0)
    read_mark = committer._read_mark

    def read_mark_and_let_another_job_commit(*arguments: Any) -> Any:
        mark = read_mark(*arguments)
        commit(sink, CommitId("other", 0, 1, b"1"), make_rows(100))
        return mark

    monkeypatch.setattr(committer, "_read_mark", read_mark_and_let_another_job_commit)
    committer.commit(SECOND, stage(sink, make_rows(2)))
    assert read(tmp_path) == [(1,), (100,), (2,)]


def test_lost_and_changed_commit_marks_are_refused(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    commit(sink, FIRST, make_rows(1))
    with pytest.raises(CommitConflict, match="other elements"):
        commit(sink, attrs.evolve(FIRST, digest=b"of an old copy"), make_rows(2))
    with pytest.raises(CommitConflict, match="marks are lost"):
        commit(sink, CommitId("run", 0, 3, b"3"), make_rows(3))
    # A new table with the same name has no marks.
    with pytest.raises(CommitConflict, match="marks are lost"):
        commit(make_sink(tmp_path / "new" / "table"), SECOND, make_rows(2))
    assert not (tmp_path / "new" / "table" / "_delta_log").exists()
    assert read(tmp_path) == [(1,)]


def test_delta_commit_marks_stay_after_cleanup_of_log(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    commit(sink, FIRST, make_rows(1))
    commit(sink, SECOND, make_rows(2))
    table = deltalake.DeltaTable(str(tmp_path))
    table.create_checkpoint()
    for entry in (tmp_path / "_delta_log").glob("0*.json"):
        entry.unlink()
    commit(sink, SECOND, make_rows(2))
    with pytest.raises(CommitConflict, match="other elements"):
        commit(sink, attrs.evolve(SECOND, digest=b"of an old copy"), make_rows(2))
    assert read(tmp_path) == [(1,), (2,)]


def test_rows_are_partitioned_and_found_by_filters(tmp_path: Path) -> None:
    rows = [
        Sale(1, "50% ü/x", 1.5),
        Sale(2, None, float("nan")),
        Sale(3, "", 2.5),
        Sale(4, "b", -1.0),
    ]
    commit(make_sink(tmp_path, partition_by=("shop",)), FIRST, rows)
    assert read(tmp_path, "id", "shop") == [(1, "50% ü/x"), (2, None), (3, None), (4, "b")]
    field = pc.field
    for condition, ids in (
        (field("shop") == "b", [4]),
        (field("price") > 2, [3]),
        (field("id") == 2, [2]),
        (field("shop").is_null(), [2, 3]),
        ([("shop", "=", "50% ü/x")], [1]),
        ([[("id", "<", 2)], [("price", ">", 2.0)]], [1, 3]),
    ):
        assert sorted(row["id"] for row in find(tmp_path, condition)) == ids


class Mixed(typing.NamedTuple):
    at: Timestamp
    local: datetime.datetime | None
    day: datetime.date
    text: str
    data: bytes
    flag: bool
    price: decimal.Decimal
    ratio: float
    many: typing.Sequence[int]


NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 678901)
MANY_DIGITS = decimal.Decimal("12345678901234567890.123456789012345678")
MORE = decimal.Decimal("12345678901234567890.123456789012345679")
MIXED = [
    Mixed(Timestamp(-1), None, NOON.date(), "x" * 99, b"1", True, MANY_DIGITS, math.inf, [1]),
    Mixed(Timestamp(1), NOON, datetime.date(1, 1, 1), "y", b"2", False, MORE, 0.5, []),
]


@pytest.mark.parametrize(
    ("name", "operator", "value"),
    [
        ("at", "<", datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        ("local", "=", NOON),
        ("day", "=", datetime.date(1, 1, 1)),
        ("text", "=", "x" * 99),
        ("text", ">", "x" * 99),
        ("data", "=", b"2"),
        ("flag", "=", True),
        ("price", "=", MANY_DIGITS),
        ("price", ">", MANY_DIGITS),
        ("ratio", ">", 1e300),
    ],
)
def test_file_statistics_do_not_exclude_matching_rows(
    tmp_path: Path, name: str, operator: str, value: Any
) -> None:
    sink = make_sink(tmp_path, declared=make_declared_arrow_schema(Mixed))
    commit(sink, FIRST, MIXED)
    assert len(find(tmp_path, pq.filters_to_expression([(name, operator, value)]))) == 1
    if not isinstance(value, bytes | decimal.Decimal):
        assert len(find(tmp_path, [(name, operator, value)])) == 1
    if name not in ("data", "ratio"):
        # The dataset of the library needs bounds of each column.
        dataset = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_dataset()
        condition = pq.filters_to_expression([(name, operator, value)])
        assert dataset.to_table(filter=condition).num_rows == 1


def test_statistics_of_file_have_its_bounds() -> None:
    table = convert_rows(make_declared_arrow_schema(Mixed), MIXED)
    statistics = json.loads(make_statistics(table), parse_float=str)
    assert statistics["numRecords"] == 2
    assert statistics["nullCount"]["local"] == 1
    assert set(statistics["nullCount"]) - set(statistics["minValues"]) == {"ratio"}
    assert statistics["minValues"]["at"] == "1969-12-31T23:59:59.000000Z"
    assert statistics["minValues"]["text"] == "x" * 32
    assert statistics["maxValues"]["price"] == str(MORE)


def test_large_bundle_becomes_several_files_of_one_commit(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    writer = sink.create_writer("run")
    assert writer is not None
    writer._file_bytes = 1000
    for row in make_rows(*range(1000)):
        writer.write(row)
    staged = writer.close()
    assert len(staged) > 1
    assert sink.create_committer("run", 0).commit(FIRST, staged) == 1000
    assert len(read(tmp_path)) == 1000


def test_overwrite_without_rows_removes_all_rows(tmp_path: Path) -> None:
    commit(make_sink(tmp_path), FIRST, make_rows(1, 2))
    sink = make_sink(tmp_path, "overwrite")
    commit(sink, CommitId("second", 0, 1, b"1"), make_rows(3))
    assert read(tmp_path) == [(3,)]
    assert sink.create_committer("third", 0).commit(CommitId("third", 0, 1, b"1"), [None]) == 0
    assert read(tmp_path) == []


def test_overwrite_of_partitions_keeps_the_other_partitions(tmp_path: Path) -> None:
    by_shop = {"partition_by": ("shop",)}
    for number, shop in enumerate(("a", "b", "c")):
        run = CommitId(shop, 0, 1, b"1")
        commit(make_sink(tmp_path, **by_shop), run, make_rows(number, shop=shop))
    sink = make_sink(tmp_path, "overwrite_partitions", **by_shop)
    commit(sink, FIRST, [*make_rows(10, shop="a"), *make_rows(11, shop="c")])
    assert read(tmp_path, "id", "shop") == [(1, "b"), (10, "a"), (11, "c")]
    with pytest.raises(ValueError, match="doesn't support null"):
        commit(sink, SECOND, make_rows(12, shop=None))


def test_upsert_replaces_rows_with_the_key_and_keeps_the_last(tmp_path: Path) -> None:
    commit(make_sink(tmp_path), FIRST, make_rows(1, 2))
    sink = make_sink(tmp_path, "upsert", key=("id",))
    rows = [*make_rows(2, 3, price=5.0), *make_rows(3, price=7.0)]
    assert commit(sink, CommitId("run2", 0, 1, b"1"), rows) == 3
    assert read(tmp_path, "id", "price") == [(1, 1.0), (2, 5.0), (3, 7.0)]
    nulls = make_sink(tmp_path, "upsert", key=("shop",))
    with pytest.raises(ValueError, match="None in 'shop'"):
        commit(nulls, SECOND, make_rows(1, shop=None))


def test_rows_without_declared_columns_take_those_of_the_table(tmp_path: Path) -> None:
    commit(make_sink(tmp_path), FIRST, make_rows(1))
    sink = make_sink(tmp_path, declared=None)
    commit(sink, SECOND, [{"id": 2, "shop": None, "price": 2}])
    assert read(tmp_path, "id", "price") == [(1, 1.0), (2, 2.0)]
    with pytest.raises(ValueError, match="no field 'shop'"):
        stage(sink, [{"id": 3}])
    with pytest.raises(ValueError, match="doesn't exist, and the rows declare no columns"):
        stage(make_sink(tmp_path / "absent", declared=None), [{"id": 3}])


def test_new_columns_are_added_only_on_request(tmp_path: Path) -> None:
    commit(make_sink(tmp_path), FIRST, make_rows(1))
    wider = SALES.append(pa.field("note", pa.string()))
    row = {"id": 2, "shop": "b", "price": 1.0, "note": "new"}
    with pytest.raises(ValueError, match="has no column 'note'"):
        stage(make_sink(tmp_path, declared=wider), [row])
    sink = make_sink(tmp_path, declared=wider, adds_columns=True)
    staged = stage(sink, [row])
    assert "note" not in deltalake.DeltaTable(str(tmp_path)).schema().to_arrow().names
    sink.create_committer("run", 0).commit(SECOND, staged)
    assert read(tmp_path, "id", "note") == [(1, None), (2, "new")]
    narrow = make_sink(tmp_path, declared=pa.schema([pa.field("id", pa.int64(), False)]))
    with pytest.raises(ValueError, match="'price' of the table .* must not contain nulls"):
        stage(narrow, [{"id": 3}])


def test_change_of_columns_between_file_write_and_commit_is_refused(tmp_path: Path) -> None:
    sink = make_sink(tmp_path)
    staged = stage(sink, make_rows(1))
    other = deltalake.Schema.from_arrow(pa.schema([("id", pa.string())]))
    deltalake.DeltaTable.create(str(tmp_path), other)
    with pytest.raises(CommitConflict, match="has changed since then"):
        sink.create_committer("run", 0).commit(FIRST, staged)


def test_table_with_constraints_is_refused(tmp_path: Path) -> None:
    commit(make_sink(tmp_path), FIRST, make_rows(1))
    deltalake.DeltaTable(str(tmp_path)).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ValueError, match=r"has delta\.constraints\.positive"):
        stage(make_sink(tmp_path), make_rows(-1))


def test_delta_write_waits_for_unavailable_storage_and_keeps_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam_spark_io.delta import sink as delta

    sink = make_sink(tmp_path)
    writer = sink.create_writer("run")
    assert writer is not None
    writer.write(make_rows(1)[0])

    def fail(*_: Any) -> None:
        raise OSError("connection refused")

    with monkeypatch.context() as patched:
        patched.setattr(delta, "write_files", fail)
        with pytest.raises(SinkUnavailable, match="connection refused"):
            writer.close()
    sink.create_committer("run", 0).commit(FIRST, writer.close())
    assert read(tmp_path) == [(1,)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"mode": "merge"}, "expected one of append, overwrite, overwrite_partitions, upsert"),
        ({"mode": "upsert"}, "an upsert needs a key"),
        ({"key": ["id"]}, "an upsert needs a key"),
        ({"every": None}, "every is None"),
        ({"storage_options": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}}, "overwrite each other"),
    ],
)
def test_transform_refuses_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        WriteToDelta("/table", **arguments)


def test_write_refuses_unsuitable_pipeline() -> None:
    stream = beam.Pipeline() | PeriodicImpulse()
    with pytest.raises(ValueError, match="can't use the mode 'overwrite' in a stream"):
        stream | WriteToDelta("/table", "overwrite")
    rows = beam.Pipeline() | beam.Create([Sale(1, "a", 1.0)]).with_output_types(Sale)
    with pytest.raises(ValueError, match="no field 'day'"):
        rows | WriteToDelta("/table", partition_by=["day"])
