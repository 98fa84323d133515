"""Tests of side inputs across bundles: each bundle reads the version of the data that it must see,
and unchanged data is cached.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from beam_runner_engine.scheduler.commands import SideInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferKind, SideInputUse
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, Window
from sample_buffers import buffer
from sample_chunks import GLOBAL, keyed_chunk

from beam_runner_data.rows.errors import FileError
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_data.side_inputs import side_data
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs

USES = (SideInputUse("T", "one", "b"), SideInputUse("T", "two", "b"))
ONE, TWO = USES[0].name, USES[1].name


def data(folder: Path, name: str, *values: bytes) -> Data:
    output = RowBufferWriter(buffer("b", BufferKind.SIDE_MULTIMAP), 1, folder, name)
    create_row_converter(BufferKind.SIDE_MULTIMAP, 1, 0, output.write).write(keyed_chunk(values))
    (out,) = output.close()
    return out.data


def shown(name: str, *parts: Data, window: Window = GLOBAL_WINDOW) -> SideInput:
    return SideInput(name, window, parts)


def seen(side_inputs: BundleSideInputs, tag: str) -> list[bytes]:
    keys = side_inputs.read_keys("T", tag, GLOBAL)
    assert isinstance(keys, bytes)
    found = [side_inputs.read_values("T", tag, GLOBAL, bytes([key])) for key in keys]
    assert all(isinstance(values, bytes) for values in found)
    return sorted(map(bytes, found))  # type: ignore[arg-type]


def test_side_input_shows_only_visible_data_of_bundle(tmp_path: Path) -> None:
    side_inputs = BundleSideInputs(USES, tmp_path)
    a, b = data(tmp_path, "1", b"a"), data(tmp_path, "2", b"b")
    assert seen(side_inputs, "one") == []
    side_inputs.set_visible_data([shown(ONE, a), shown(TWO, a, b)])
    assert (seen(side_inputs, "one"), seen(side_inputs, "two")) == ([b"a"], [b"a", b"b"])
    side_inputs.set_visible_data([shown(ONE, a, b)])
    assert (seen(side_inputs, "one"), seen(side_inputs, "two")) == ([b"a", b"b"], [])
    side_inputs.set_visible_data([])
    assert (seen(side_inputs, "one"), seen(side_inputs, "two")) == ([], [])


def test_side_input_version_changes_with_visible_data(tmp_path: Path) -> None:
    side_inputs = BundleSideInputs(USES, tmp_path)
    a, b = data(tmp_path, "1", b"a"), data(tmp_path, "2", b"b")
    versions = []
    for one in ([a], [a], [a, b], [a, b], [b], [a], []):
        side_inputs.set_visible_data([shown(ONE, *one), shown(TWO, a)])
        versions.append((side_inputs.get_version("T", "one"), side_inputs.get_version("T", "two")))
    ones = [one for one, _ in versions]
    assert ones[0] == ones[1] and ones[2] == ones[3]
    assert len(set(ones)) == 5
    assert len({two for _, two in versions}) == 1


def test_unchanged_side_input_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    real = side_data.read_referenced_rows

    def counting(folder: Path, ref: object) -> object:
        reads.append(ref)
        return real(folder, ref)  # type: ignore[arg-type]

    monkeypatch.setattr(side_data, "read_referenced_rows", counting)
    side_inputs = BundleSideInputs(USES, tmp_path)
    a = data(tmp_path, "1", b"a")
    for _ in range(3):
        side_inputs.set_visible_data([shown(ONE, a)])
        assert seen(side_inputs, "one") == [b"a"]
    assert len(reads) == 1


def test_side_input_is_read_on_first_use(tmp_path: Path) -> None:
    a = data(tmp_path, "1", b"a" * 100_000)
    (path,) = tmp_path.iterdir()
    path.unlink()
    side_inputs = BundleSideInputs(USES, tmp_path)
    side_inputs.set_visible_data([shown(ONE, a)])
    with pytest.raises(FileError, match="is missing"):
        seen(side_inputs, "one")


def test_latest_side_input_shows_only_latest_pane(tmp_path: Path) -> None:
    side_inputs = BundleSideInputs([attrs.evolve(USES[0], latest=True)], tmp_path)
    a, b = data(tmp_path, "1", b"a"), data(tmp_path, "2", b"b", b"c")
    for parts, latest in (((a,), b"a"), ((a, b), b"c"), ((b, a), b"a"), ((), b"")):
        side_inputs.set_visible_data([shown(ONE, *parts)])
        assert side_inputs.read_iterable("T", "one", GLOBAL) == latest


def test_side_input_in_several_windows_is_read_once_per_window(tmp_path: Path) -> None:
    """The scheduler passes the same data with every window of its elements."""
    side_inputs = BundleSideInputs(USES, tmp_path)
    a = data(tmp_path, "1", b"a")
    side_inputs.set_visible_data([shown(ONE, a), shown(ONE, a, window=IntervalWindow(0, 10))])
    assert seen(side_inputs, "one") == [b"a"]


def test_side_input_windows_have_data_in_order_of_arrival(tmp_path: Path) -> None:
    """A bundle can see several windows, and the last data of one window can be the first data of another."""
    side_inputs = BundleSideInputs(USES, tmp_path)
    early, later, both = (data(tmp_path, name, f"k{name}".encode()) for name in "123")
    other = IntervalWindow(0, 10)
    side_inputs.set_visible_data([shown(ONE, early, both, window=other), shown(ONE, later, both)])
    assert seen(side_inputs, "one") == [b"k1k2k3"]
