"""`WriteFilesExactlyOnce`, which writes each element once into files of a folder or an object store.

The name of a file consists of the run, the shard and the number of the commit. So a repeated commit
writes the same elements to the same file, and no element is in two files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import BoundedWindow, IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from beam_runner_storage.stores.spec import parse_user_store

from beam_spark_io.exactly_once.transform import WriteExactlyOnce
from beam_spark_io.files.commits import FileCommitter, complete_window_folder
from beam_spark_io.files.formats import FileFormat

_EVERY = 60
_MAX_BYTES = 128 << 20
_PART = r"(?![._])[\w=+@,.-]+"
_FOLDER = re.compile(f"{_PART}(?:/{_PART})*")


class WriteFilesExactlyOnce(beam.PTransform):
    """Transform that writes each element once into files, and emits the name of each file after it exists.

    The files of a run are ``RUN-SHARD-NUMBER.EXTENSION``. Each file appears complete, and never changes.
    With `by_window`, the files of a window are in a folder with the name of the window. The folder gets
    a file ``_SUCCESS`` after the last file of the window.

    Args:
        url: folder, or URL of a store such as ``s3://BUCKET/PREFIX``; see the docs about storage.
        format: ``jsonl``, ``csv``, ``parquet`` or ``avro``. Elements are mappings or rows.
        every: whole seconds between two files of a shard and window. Without windows, None writes a file
            for each batch; with windows, None writes the files at the end of the window.
        shards: number of files that are written at the same time.
        compression: ``none``, ``gzip``, ``zstd`` or ``bz2`` for text; ``snappy``, ``gzip``, ``zstd``,
            ``lz4`` or ``none`` for Parquet; ``none``, ``deflate``, ``bzip2`` or ``xz`` for Avro. The
            first of each is the default.
        schema: a ``pyarrow.Schema`` for Parquet, an Avro schema as a dictionary, or a list of the fields
            for CSV; None derives the fields from the elements of each file.
        max_bytes: size of the elements from which the next file begins, before encoding and compression.
        by_window: True, or a function that names the folder of a window, with another name for each
            window. False ignores windows.
        options: further arguments of `WriteExactlyOnce`.

    Raises:
        ValueError: An argument is unknown, or the URL is incomplete.
    """

    def __init__(
        self,
        url: str,
        format: str,
        every: int | None = _EVERY,
        shards: int = 1,
        compression: str = "",
        schema: Any = None,
        max_bytes: int = _MAX_BYTES,
        by_window: bool | Callable[[BoundedWindow], str] = False,
        **options: Any,
    ) -> None:
        super().__init__()
        sink = FileSink(url, format, shards, compression, schema)
        name = by_window if callable(by_window) else name_window
        options["name_window"] = partial(name_folder, name) if by_window else None
        self._write = WriteExactlyOnce(sink, every, max_bytes=max_bytes, **options)

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        """Returns the results of the commits and windows; each has the name of a file."""
        results: PCollection[Any] = elements | "Files" >> self._write
        return results


class FileSink:
    """Sink of `WriteFilesExactlyOnce`.

    Args:
        url: folder, or URL of a store.
        format: name of the format.
        shards: number of files that are written at the same time.
        compression: name of the compression; empty for the default of the format.
        schema: fields of the elements; None derives them from the elements of each file.
    """

    def __init__(
        self, url: str, format: str, shards: int, compression: str = "", schema: Any = None
    ) -> None:
        self.shards = shards
        self._spec = parse_user_store(url)
        self._format = FileFormat(format, compression, schema)
        self._next = 0

    def select_shard(self, element: Any) -> int:
        """Returns the shards in round-robin order, because any shard can write the element."""
        self._next = (self._next + 1) % self.shards
        return self._next

    def create_committer(self, run: str, shard: int) -> FileCommitter:
        """Returns a committer with a separate connection to the store."""
        return FileCommitter(self._spec, self._format)

    def complete_window(self, run: str, window: str | None) -> str | None:
        """Removes the unfinished files of a window, and creates the window's ``_SUCCESS`` file.

        Returns:
            The name of the file; None without windows.
        """
        return complete_window_folder(self._spec, run, window)


def name_folder(name: Callable[[BoundedWindow], str], window: BoundedWindow) -> str:
    """Returns the name of a window's folder.

    Raises:
        ValueError: The name isn't a relative path of plain names. Readers ignore names with a leading
            period or underscore.
    """
    found = name(window)
    if not _FOLDER.fullmatch(found):
        raise ValueError(
            f"by_window names the window {window} {found!r}; expected letters, digits and =+@,.-"
            " between slashes, without a leading period or underscore"
        )
    return found


def name_window(window: BoundedWindow) -> str:
    """Returns the name of a window with its bounds in UTC, such as ``20270101T000000Z-20270101T010000Z``.

    The global window has the name ``all``.

    Raises:
        TypeError: The window is of another type.
    """
    if not isinstance(window, IntervalWindow):
        if type(window).__name__ == "GlobalWindow":
            return "all"
        raise TypeError(
            f"Can't create a file name for a window of type {type(window).__name__}:"
            " set by_window to a function that returns a name for each window"
        )
    return f"{_format_time(window.start)}-{_format_time(window.end)}"


def _format_time(time: Timestamp) -> str:
    text = time.to_utc_datetime().strftime("%Y%m%dT%H%M%S")
    micros = time.micros % 1_000_000
    return f"{text}.{micros:06}Z" if micros else f"{text}Z"
