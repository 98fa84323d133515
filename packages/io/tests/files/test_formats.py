"""Tests of the formats of files: the same elements give the same bytes, and readers get the elements."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest

from beam_spark_io.files.formats import FORMATS, FileFormat

ELEMENTS = [{"a": 1, "b": "é,\n"}, {"a": 2, "b": ""}]


def read_text(file: Path) -> str:
    match file.suffix:
        case ".gz":
            return gzip.decompress(file.read_bytes()).decode()
        case ".bz2":
            return bz2.decompress(file.read_bytes()).decode()
        case ".zst":
            with pa.input_stream(str(file), compression="zstd") as stream:
                return bytes(stream.read()).decode()
        case _:
            return file.read_bytes().decode()


def read(format: FileFormat, file: Path) -> list[Any]:
    match format.name:
        case "jsonl":
            return [json.loads(line) for line in read_text(file).splitlines()]
        case "csv":
            rows = csv.DictReader(io.StringIO(read_text(file), newline=""))
            return [{"a": int(row["a"]), "b": row["b"]} for row in rows]
        case "parquet":
            return list(pyarrow.parquet.read_table(file).to_pylist())
        case _:
            with file.open("rb") as data:
                return list(fastavro.reader(data))


def list_formats() -> Iterator[FileFormat]:
    for name, known in FORMATS.items():
        yield from (FileFormat(name, compression) for compression in ("", *known.compressions))


@pytest.mark.parametrize(
    "format", list(list_formats()), ids=lambda one: f"{one.name}-{one.compression}"
)
def test_files_with_equal_elements_have_equal_bytes_in_each_compression(
    tmp_path: Path, format: FileFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (tmp_path / f"{name}{format.extension}" for name in ("first", "second"))
    format.write(ELEMENTS, first)
    monkeypatch.setattr("time.time", lambda: 2e9)
    format.write(ELEMENTS, second)
    assert first.read_bytes() == second.read_bytes()
    assert read(format, first) == ELEMENTS


def test_file_extension_of_text_contains_compression() -> None:
    assert FileFormat("csv", "gzip").extension == ".csv.gz"
    assert FileFormat("jsonl", "zstd").extension == ".jsonl.zst"
    assert FileFormat("parquet", "zstd").extension == ".parquet"
    assert FileFormat("avro").extension == ".avro"


def test_schema_argument_sets_fields_of_files(tmp_path: Path) -> None:
    rows = [{"a": None, "b": "x"}]
    schema = pa.schema([("b", pa.string()), ("a", pa.int16())])
    FileFormat("parquet", schema=schema).write(rows, tmp_path / "parquet")
    assert pyarrow.parquet.read_schema(tmp_path / "parquet") == schema
    FileFormat("csv", schema=["b", "a"]).write(rows, tmp_path / "csv")
    assert (tmp_path / "csv").read_text() == "b,a\nx,\n"
    fields = [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": "string"}]
    avro = {"type": "record", "name": "Sale", "fields": fields}
    FileFormat("avro", schema=avro).write(rows, tmp_path / "avro")
    with (tmp_path / "avro").open("rb") as data:
        reader = fastavro.reader(data)
        assert reader.writer_schema["name"] == "Sale"
        assert list(reader) == rows


def test_avro_type_is_type_of_first_value(tmp_path: Path) -> None:
    rows = [{"a": None, "b": None}, {"a": 2.5, "b": None}]
    FileFormat("avro").write(rows, tmp_path / "avro")
    with (tmp_path / "avro").open("rb") as data:
        reader = fastavro.reader(data)
        types = [field["type"] for field in reader.writer_schema["fields"]]
        assert types == [["null", "double"], ["null", "string"]]
        assert list(reader) == rows
    with pytest.raises(TypeError, match="field 'a' from a list"):
        FileFormat("avro").write([{"a": []}], tmp_path / "avro")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("xml",), "expected one of jsonl, csv, parquet, avro"),
        (("csv", "snappy"), "one of none, gzip, zstd, bz2 for the format csv"),
        (("avro", "", pa.schema([])), "schema is a Schema; the format avro expects an Avro"),
        (("jsonl", "", ["a"]), "the format jsonl expects no schema"),
    ],
)
def test_unknown_format_compression_and_schema_are_refused(
    arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        FileFormat(*arguments)
