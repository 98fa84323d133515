"""File formats of `WriteFilesExactlyOnce`, and functions that write elements in these formats to a
local file.

Files with equal elements have equal bytes, so that a repeated commit doesn't change its file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import attrs
import fastavro
import pyarrow
import pyarrow.parquet

Elements = Sequence[Mapping[str, Any]]

_NONE = "none"
_TEXT = {_NONE: "", "gzip": ".gz", "zstd": ".zst", "bz2": ".bz2"}
"""Extensions of compressed text files, by the name of the compression."""


@attrs.frozen
class FileFormat:
    """Format of files.

    Attributes:
        name: ``jsonl``, ``csv``, ``parquet`` or ``avro``.
        compression: name of the compression; empty for the default of the format.
        schema: fields of all elements, see `WriteFilesExactlyOnce`; None derives them from each file.

    Raises:
        ValueError: The format, the compression or the type of the schema is unknown.
    """

    name: str
    compression: str = ""
    schema: Any = None

    def __attrs_post_init__(self) -> None:
        if self.name not in FORMATS:
            raise ValueError(f"format is {self.name!r}; expected one of {', '.join(FORMATS)}")
        known = FORMATS[self.name]
        if self.compression and self.compression not in known.compressions:
            raise ValueError(
                f"compression is {self.compression!r}; expected one of"
                f" {', '.join(known.compressions)} for the format {self.name}"
            )
        if self.schema is not None and not isinstance(self.schema, known.schema):
            raise ValueError(
                f"schema is a {type(self.schema).__name__}; the format {self.name} expects"
                f" {known.schema_text}"
            )

    @property
    def extension(self) -> str:
        """Extension of files, such as ``.jsonl.gz``."""
        return f".{self.name}" + (_TEXT.get(self.compression, "") if self.is_text else "")

    @property
    def is_text(self) -> bool:
        """Whether the format is a text format."""
        return FORMATS[self.name].compressions is _TEXT

    def write(self, elements: Elements, file: Path) -> None:
        """Writes elements, at least one, to a new file."""
        compression = self.compression or next(iter(FORMATS[self.name].compressions))
        FORMATS[self.name].write(elements, file, compression, self.schema)


def write_json_lines(elements: Elements, file: Path, compression: str, _: None) -> None:
    """Writes one JSON object for each element."""
    with _open_text(file, compression) as lines:
        for element in elements:
            lines.write(json.dumps(dict(element), ensure_ascii=False) + "\n")


def write_csv(
    elements: Elements, file: Path, compression: str, fields: Sequence[str] | None
) -> None:
    """Writes a header with the fields, by default those of the first element, and a line for each element."""
    with _open_text(file, compression) as lines:
        writer = csv.DictWriter(lines, list(elements[0]) if fields is None else fields)
        writer.writeheader()
        writer.writerows(elements)


def write_parquet(
    elements: Elements, file: Path, compression: str, schema: pyarrow.Schema | None
) -> None:
    """Writes a Parquet file; without a schema, pyarrow derives the types from the values."""
    table = pyarrow.Table.from_pylist([dict(one) for one in elements], schema)
    pyarrow.parquet.write_table(table, file, compression=compression)


def write_avro(elements: Elements, file: Path, compression: str, schema: Any) -> None:
    """Writes an Avro file; without a schema, each field has the type of its first value, or null."""
    parsed = fastavro.parse_schema(_derive_avro_schema(elements) if schema is None else schema)
    codec = "null" if compression == _NONE else compression
    # Use a fixed sync marker between blocks, so that equal elements give equal bytes.
    with file.open("wb") as target:
        fastavro.writer(target, parsed, elements, codec=codec, sync_marker=bytes(16))


def _open_text(file: Path, compression: str) -> TextIO:
    # Use Arrow's gzip: Python's gzip module writes the current time into the file.
    stream = pyarrow.output_stream(
        str(file), compression=None if compression == _NONE else compression
    )
    return io.TextIOWrapper(stream, encoding="utf-8", newline="")


_AVRO = {bool: "boolean", int: "long", float: "double", bytes: "bytes", str: "string"}


def _derive_avro_schema(elements: Elements) -> dict[str, Any]:
    fields = [
        {"name": name, "type": ["null", _find_avro_type(name, elements)]} for name in elements[0]
    ]
    return {"type": "record", "name": "Element", "fields": fields}


def _find_avro_type(name: str, elements: Elements) -> str:
    values = (element.get(name) for element in elements)
    value = next((value for value in values if value is not None), "")
    found = _AVRO.get(type(value))
    if found is None:
        types = ", ".join(one.__name__ for one in _AVRO)
        raise TypeError(
            f"Can't derive the Avro type of the field {name!r} from a {type(value).__name__};"
            f" expected one of {types}. Set the schema of WriteFilesExactlyOnce"
        )
    return found


@attrs.frozen
class _KnownFormat:
    """Function and arguments of a format.

    Attributes:
        write: writes elements to a new file, with a compression and a schema.
        compressions: names of compressions, the default first.
        schema: types of a schema.
        schema_text: description of a schema, for errors.
    """

    write: Callable[[Elements, Path, str, Any], None]
    compressions: Mapping[str, str]
    schema: type | tuple[type, ...]
    schema_text: str


FORMATS: Mapping[str, _KnownFormat] = {
    "jsonl": _KnownFormat(write_json_lines, _TEXT, (), "no schema"),
    "csv": _KnownFormat(write_csv, _TEXT, (list, tuple), "a list of field names"),
    "parquet": _KnownFormat(
        write_parquet,
        dict.fromkeys(("snappy", "gzip", "zstd", "lz4", _NONE), ""),
        pyarrow.Schema,
        "a pyarrow.Schema",
    ),
    "avro": _KnownFormat(
        write_avro,
        dict.fromkeys((_NONE, "deflate", "bzip2", "xz"), ""),
        dict,
        "an Avro schema as a dictionary",
    ),
}
