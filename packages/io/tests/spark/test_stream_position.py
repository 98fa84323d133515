"""Tests that a position contains only the data that a query needs to resume, and doesn't grow with the stream."""

from __future__ import annotations

from pathlib import Path

from beam_spark_io.spark.stream_position import StreamPosition


def checkpoint(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def test_encoded_stream_position_round_trips(tmp_path: Path) -> None:
    names = ["metadata", "offsets/3", "commits/3", "sources/0/0"]
    folder = checkpoint(tmp_path / "one", [*names, "offsets/.3.crc"])
    position = StreamPosition.read_checkpoint(folder)
    assert StreamPosition.from_bytes(position.to_bytes()) == position
    position.write_checkpoint(tmp_path / "two")
    assert StreamPosition.read_checkpoint(tmp_path / "two") == position
    assert sorted(position.files) == sorted(names)


def test_empty_stream_position_starts_at_the_beginning(tmp_path: Path) -> None:
    assert StreamPosition.from_bytes(b"") == StreamPosition()
    StreamPosition().write_checkpoint(tmp_path / "new")
    assert StreamPosition.read_checkpoint(tmp_path / "new") == StreamPosition()


def test_equal_stream_positions_have_equal_encodings() -> None:
    one = StreamPosition({"a": b"1", "b": b"2"})
    assert one.to_bytes() == StreamPosition({"b": b"2", "a": b"1"}).to_bytes()


def test_stream_position_omits_files_that_are_not_read_again(tmp_path: Path) -> None:
    numbers = range(8, 13)
    names = [f"{log}/{n}" for log in ("offsets", "commits") for n in numbers]
    names += ["sources/0/7", "sources/0/8", "sources/0/9.compact", "sources/0/10", "sources/0/11"]
    names += ["sources/1/0", "metadata"]
    assert sorted(StreamPosition.read_checkpoint(checkpoint(tmp_path, names)).files) == [
        "commits/11",
        "commits/12",
        "metadata",
        "offsets/11",
        "offsets/12",
        "sources/0/10",
        "sources/0/11",
        "sources/0/9.compact",
        "sources/1/0",
    ]
