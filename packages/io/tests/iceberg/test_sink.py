"""Tests of `WriteToIceberg`: repeated and concurrent commits, modes, columns, and refusals."""

from __future__ import annotations

import pickle
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io import WriteToIceberg
from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId, SinkUnavailable
from beam_spark_io.iceberg import changes
from beam_spark_io.iceberg import sink as iceberg
from beam_spark_io.iceberg import table as iceberg_table
from beam_spark_io.iceberg.sink import IcebergSink
from beam_spark_io.iceberg.table import IcebergTarget
from beam_spark_io.schemas import make_declared_arrow_schema

pytest.importorskip("pyiceberg", reason="the extra `iceberg` isn't installed")
pytest.importorskip("sqlalchemy", reason="the catalog of the tests needs it")

FIRST = CommitId("run", 0, 1, b"the first digest")
SECOND = CommitId("run", 0, 2, b"the second digest")
DAY = 86_400


class Sale(typing.NamedTuple):
    id: int
    at: Timestamp
    shop: str | None
    many: typing.Sequence[str]


SALES = make_declared_arrow_schema(Sale)


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    """Returns the properties of a catalog with an empty table `shop.sales`, partitioned by day."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.transforms import DayTransform

    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": tmp_path.as_uri(),
    }
    loaded = load_catalog("beam", **properties)
    loaded.create_namespace("shop")
    table = loaded.create_table("shop.sales", SALES)
    with table.update_spec() as spec:
        spec.add_field("at", DayTransform(), "day")
    return properties


def load(catalog: dict[str, str]) -> Any:
    return iceberg_table.load_table("shop.sales", catalog)


def make_sink(catalog: dict[str, str], mode: str = "append", **more: Any) -> IcebergSink:
    defaults: dict[str, Any] = {"key": (), "adds_columns": False, "declared": SALES, **more}
    return IcebergSink(IcebergTarget("shop.sales", catalog, mode, **defaults))


def make_rows(*numbers: int, shop: str | None = "a") -> list[Sale]:
    return [Sale(number, Timestamp(number * DAY), shop, ["x"]) for number in numbers]


def stage(sink: IcebergSink, rows: Sequence[Any]) -> list[Any]:
    """Returns what a bundle with these rows hands to the committer."""
    writer = sink.create_writer("run")
    if writer is None:
        return list(rows)
    for row in rows:
        writer.write(row)
    return list(writer.close())


def commit(sink: IcebergSink, commit_id: CommitId, rows: Sequence[Any]) -> int:
    return sink.create_committer("run", 0).commit(commit_id, stage(sink, rows))


def read(catalog: dict[str, str], *columns: str) -> list[Any]:
    found = load(catalog).scan().to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in columns or ("id",)) for row in found), key=repr)


def let_happen_after_the_mark_is_read(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """Calls a function once, when a committer has read its commit mark."""
    actions = [action]
    read_mark = iceberg.read_mark

    def read_mark_and_freeze(*arguments: Any) -> Any:
        mark = read_mark(*arguments)
        if actions:
            actions.pop()()
        return mark

    monkeypatch.setattr(iceberg, "read_mark", read_mark_and_freeze)


def test_staged_rows_are_invisible_until_the_commit(catalog: dict[str, str]) -> None:
    sink = make_sink(catalog)
    staged = stage(sink, make_rows(1, 2))
    assert [one.file.record_count for one in staged] == [1, 1]
    assert read(catalog) == []
    for _ in range(2):
        assert sink.create_committer("run", 0).commit(FIRST, staged) == 2
    assert read(catalog, "id", "shop", "many") == [(1, "a", ["x"]), (2, "a", ["x"])]
    assert len(load(catalog).metadata.snapshots) == 1


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions", "upsert"])
def test_second_committer_of_commit_writes_nothing(
    catalog: dict[str, str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(catalog, mode, key=("id",) if mode == "upsert" else ())
    commit(sink, FIRST, make_rows(1))
    first, second = (stage(sink, make_rows(2)) for _ in range(2))
    let_happen_after_the_mark_is_read(
        monkeypatch, lambda: sink.create_committer("run", 0).commit(SECOND, first)
    )
    assert sink.create_committer("run", 0).commit(SECOND, second) == 1
    assert read(catalog) == ([(2,)] if mode == "overwrite" else [(1,), (2,)])


def test_commit_is_repeated_after_commits_of_other_jobs(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(catalog)
    let_happen_after_the_mark_is_read(
        monkeypatch,
        lambda: sink.create_committer("other", 0).commit(
            attrs.evolve(FIRST, run="other"), stage(sink, make_rows(100))
        ),
    )
    assert commit(sink, FIRST, make_rows(1)) == 1
    assert read(catalog) == [(1,), (100,)]


def test_commit_is_retried_later_if_other_writers_always_commit_first(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table import Table

    def fail(*_: Any, **__: Any) -> None:
        raise CommitFailedException("branch main has changed")

    sink = make_sink(catalog)
    staged = stage(sink, make_rows(1))
    with monkeypatch.context() as patched:
        patched.setattr(Table, "_do_commit", fail)
        with pytest.raises(
            SinkUnavailable, match="other writers have changed the table shop.sales"
        ):
            sink.create_committer("run", 0).commit(FIRST, staged)
    assert sink.create_committer("run", 0).commit(FIRST, staged) == 1


def test_lost_and_changed_commit_marks_are_refused(catalog: dict[str, str]) -> None:
    sink = make_sink(catalog)
    commit(sink, FIRST, make_rows(1))
    with pytest.raises(CommitConflict, match="other elements"):
        commit(sink, attrs.evolve(FIRST, digest=b"of an old copy"), make_rows(2))
    commit(sink, SECOND, make_rows(2))
    first_snapshot = load(catalog).metadata.snapshots[0].snapshot_id
    load(catalog).manage_snapshots().set_current_snapshot(first_snapshot).commit()
    with pytest.raises(CommitConflict, match="marks are lost"):
        commit(sink, CommitId("run", 0, 3, b"3"), make_rows(3))
    assert read(catalog) == [(1,)]


def test_overwrite_without_rows_removes_all_rows(catalog: dict[str, str]) -> None:
    commit(make_sink(catalog), FIRST, make_rows(1, 2))
    sink = make_sink(catalog, "overwrite")
    commit(sink, CommitId("second", 0, 1, b"1"), make_rows(3))
    assert read(catalog) == [(3,)]
    for _ in range(2):
        assert sink.create_committer("run", 0).commit(CommitId("third", 0, 1, b"1"), [None]) == 0
    assert read(catalog) == []
    assert [one.summary.operation.value for one in load(catalog).metadata.snapshots] == [
        "append",
        "overwrite",
        "overwrite",
    ]


def test_overwrite_of_partitions_replaces_only_partitions_with_rows(
    catalog: dict[str, str],
) -> None:
    with load(catalog).update_spec() as spec:
        spec.add_identity("shop")
    old = [*make_rows(1, 2, shop="a"), *make_rows(2, shop=None), *make_rows(2, shop="null")]
    commit(make_sink(catalog), CommitId("other", 0, 1, b"1"), old)
    sink = make_sink(catalog, "overwrite_partitions")
    new = [Sale(20 + n, Timestamp(2 * DAY), shop, []) for n, shop in enumerate(("a", None, "b"))]
    for _ in range(2):
        assert commit(sink, FIRST, new) == 3
    expected = [(1, "a"), (2, "null"), (20, "a"), (21, None), (22, "b")]
    assert read(catalog, "id", "shop") == expected
    assert len(load(catalog).metadata.snapshots) == 2


def test_overwrite_of_partitions_is_refused_without_partitions_and_with_earlier_specs(
    catalog: dict[str, str],
) -> None:
    commit(make_sink(catalog), FIRST, make_rows(1))
    with load(catalog).update_spec() as spec:
        spec.add_identity("shop")
    sink = make_sink(catalog, "overwrite_partitions")
    with pytest.raises(ValueError, match="files of an earlier partition spec"):
        commit(sink, CommitId("other", 0, 1, b"1"), make_rows(1))
    with load(catalog).update_spec() as spec:
        spec.remove_field("shop")
        spec.remove_field("day")
    with pytest.raises(ValueError, match="has no partitions"):
        make_sink(catalog, "overwrite_partitions").create_writer("run")
    assert read(catalog) == [(1,)]


def test_upsert_replaces_rows_with_the_key_and_keeps_the_last(catalog: dict[str, str]) -> None:
    commit(make_sink(catalog), CommitId("other", 0, 1, b"1"), make_rows(1, 2))
    sink = make_sink(catalog, "upsert", key=("id",))
    rows = [*make_rows(2, 3, shop="b"), *make_rows(3, shop="c")]
    assert commit(sink, FIRST, rows) == 3
    expected = [(1, "a"), (2, "b"), (3, "c")]
    assert read(catalog, "id", "shop") == expected
    # Equal rows change nothing, but the commit counts.
    commit(sink, SECOND, make_rows(3, shop="c"))
    commit(sink, CommitId("run", 0, 3, b"3"), make_rows(3, shop="c"))
    assert read(catalog, "id", "shop") == expected
    some = make_sink(catalog, "upsert", key=("id",), declared=pa.schema([SALES.field("id")]))
    with pytest.raises(ValueError, match="no field 'at'|no field 'shop'|must not contain nulls"):
        commit(some, CommitId("run", 0, 4, b"4"), [{"id": 1}])


def test_new_columns_are_added_only_on_request(catalog: dict[str, str]) -> None:
    commit(make_sink(catalog), FIRST, make_rows(1))
    wider = SALES.append(pa.field("note", pa.string(), False))
    row = {**make_rows(2)[0]._asdict(), "note": "new"}
    with pytest.raises(ValueError, match="has no column 'note'"):
        stage(make_sink(catalog, declared=wider), [row])
    commit(make_sink(catalog, declared=wider, adds_columns=True), SECOND, [row])
    assert read(catalog, "id", "note") == [(1, None), (2, "new")]


def test_rows_without_declared_columns_take_those_of_the_table(catalog: dict[str, str]) -> None:
    commit(make_sink(catalog, declared=None), FIRST, [make_rows(1)[0]._asdict()])
    commit(make_sink(catalog, declared=None), SECOND, [beam.Row(**make_rows(2)[0]._asdict())])
    assert read(catalog) == [(1,), (2,)]


def test_change_of_partition_spec_between_file_write_and_commit_is_refused(
    catalog: dict[str, str],
) -> None:
    sink = make_sink(catalog)
    staged = stage(sink, make_rows(1))
    with load(catalog).update_spec() as spec:
        spec.remove_field("day")
    with pytest.raises(CommitConflict, match="another partition spec"):
        sink.create_committer("run", 0).commit(FIRST, staged)


def test_commit_waits_for_unavailable_catalog_and_fails_without_table(
    catalog: dict[str, str],
) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    away = {**catalog, "uri": "sqlite:////absent/catalog.db"}
    with pytest.raises(SinkUnavailable, match="unable to open"):
        make_sink(away).create_committer("run", 0).commit(FIRST, [])
    nobody = {"type": "rest", "uri": "http://127.0.0.1:9"}
    with pytest.raises(SinkUnavailable, match="shop.sales is unavailable"):
        make_sink(nobody).create_writer("run")
    absent = IcebergSink(IcebergTarget("shop.absent", catalog, "append", None, (), False))
    with pytest.raises(NoSuchTableError):
        absent.create_writer("run")


def test_writers_and_commits_of_a_process_load_the_table_once(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    loads = []
    load_table = SqlCatalog.load_table

    def count_loads(*arguments: Any) -> Any:
        loads.append(arguments)
        return load_table(*arguments)

    monkeypatch.setattr(SqlCatalog, "load_table", count_loads)
    sink = make_sink(catalog)
    committer = sink.create_committer("run", 0)
    for number in range(1, 4):
        committer.commit(CommitId("run", 0, number, b""), stage(sink, make_rows(number)))
    # A commit of the SQL catalog loads the table, too.
    assert len(loads) == 2 + 3
    # A sink that has created writers can still be sent to another process.
    assert stage(pickle.loads(pickle.dumps(sink)), make_rows(4)) != []


def test_append_computes_the_metadata_once_for_its_update(
    catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import update

    computed = []
    compute = update.update_table_metadata

    def count_copies(metadata: Any, updates: Any) -> Any:
        computed.append(updates)
        return compute(metadata, updates)

    monkeypatch.setattr(update, "update_table_metadata", count_copies)
    changes._create_change_class.cache_clear()
    try:
        commit(make_sink(catalog), FIRST, make_rows(1))
    finally:
        changes._create_change_class.cache_clear()
    assert len(computed) == 1


def test_column_that_another_program_adds_is_found_by_the_next_attempt(
    catalog: dict[str, str],
) -> None:
    wider = SALES.append(pa.field("note", pa.string()))
    sink = make_sink(catalog, declared=wider)
    with pytest.raises(ValueError, match="has no column 'note'"):
        sink.create_writer("run")
    with load(catalog).update_schema() as update:
        update.union_by_name(wider)
    commit(sink, FIRST, [{**make_rows(1)[0]._asdict(), "note": "new"}])
    assert read(catalog, "note") == [("new",)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"mode": "delete"}, "expected one of append, overwrite, overwrite_partitions, upsert"),
        ({"mode": "upsert"}, "an upsert needs a key"),
        ({"every": None}, "every is None"),
    ],
)
def test_transform_refuses_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        WriteToIceberg("shop.sales", {}, **arguments)


def test_write_refuses_unsuitable_pipeline() -> None:
    stream = beam.Pipeline() | PeriodicImpulse()
    for mode in ("overwrite", "overwrite_partitions"):
        with pytest.raises(ValueError, match=f"can't use the mode '{mode}' in a stream"):
            stream | mode >> WriteToIceberg("shop.sales", {}, mode)
    rows = beam.Pipeline() | beam.Create(make_rows(1)).with_output_types(Sale)
    with pytest.raises(ValueError, match="no field 'day'"):
        rows | WriteToIceberg("shop.sales", {}, "upsert", key=["day"])
