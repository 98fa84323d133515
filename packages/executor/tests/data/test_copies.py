"""Copies of a store's files: there when they are needed, whole, and never more than the disk can take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_spark_executor.data.copies import LocalCopies
from beam_spark_executor.driver.job_data import StoredJobData
from beam_spark_executor.stores.ports import MissingFileError, StoreError

NAMES = st.sampled_from("abcdefgh")


@attrs.define
class InMemory:
    """A store as a dictionary; one that ``fails`` answers nothing."""

    files: dict[str, bytes] = attrs.field(factory=dict)
    fetched: list[str] = attrs.field(factory=list)
    fails: bool = False

    def put(self, name: str, source: Path) -> None:
        self._answer()
        self.files[name] = source.read_bytes()

    def fetch(self, name: str, target: Path) -> int:
        self._answer()
        self.fetched.append(name)
        if name not in self.files:
            raise MissingFileError(f"no {name}")
        return target.write_bytes(self.files[name])

    def names(self) -> Iterator[str]:
        self._answer()
        return iter(list(self.files))

    def delete(self, names: Iterable[str]) -> None:
        self._answer()
        for name in names:
            self.files.pop(name, None)

    def _answer(self) -> None:
        if self.fails:
            raise StoreError("503 SlowDown")


@given(st.lists(st.sets(NAMES, max_size=4), max_size=12), st.integers(0, 60))
def test_what_is_needed_is_here_and_what_is_not_takes_no_more_than_it_may(
    tmp_path_factory: pytest.TempPathFactory, needs: list[set[str]], most: int
) -> None:
    store = InMemory({name: name.encode() * 10 for name in "abcdefgh"})
    folder = tmp_path_factory.mktemp("copies")
    copies = LocalCopies(store, folder, most)
    for needed in needs:
        copies.need(needed)
        here = {file.name: file.read_bytes() for file in folder.iterdir()}
        assert needed <= here.keys()
        assert all(store.files[name] == contents for name, contents in here.items())
        assert sum(map(len, here.values())) <= max(most, 10 * len(needed))


def test_what_is_here_is_not_fetched_again(tmp_path: Path) -> None:
    store = InMemory({"a": b"1", "b": b"2"})
    copies = LocalCopies(store, tmp_path, 100)
    copies.need({"a"})
    copies.need({"a", "b"})
    assert store.fetched == ["a", "b"]


def test_what_this_process_has_written_is_in_the_store_once_kept(tmp_path: Path) -> None:
    store = InMemory()
    copies = LocalCopies(store, tmp_path, 100)
    (tmp_path / "new").write_bytes(b"rows")
    copies.need({"new"})  # as the loop inside a task does, before it tells of it
    assert store.files == {}
    copies.keep(["new"])
    assert store.files == {"new": b"rows"}
    assert store.fetched == []


def test_what_a_loop_has_begun_with_and_written_stays_until_another_begins(tmp_path: Path) -> None:
    store = InMemory({"state": b"1", "a": b"2", "b": b"3"})
    copies = LocalCopies(store, tmp_path, 0)
    copies.hold({"state"})
    (tmp_path / "written").write_bytes(b"4")
    copies.keep(["written"], hold=True)
    for name in ("a", "b"):
        copies.need({name})
        assert {file.name for file in tmp_path.iterdir()} == {"state", "written", name}
    copies.hold(())
    assert [file.name for file in tmp_path.iterdir()] == ["b"]


def test_a_store_that_does_not_answer_fails_the_bundle(tmp_path: Path) -> None:
    copies = LocalCopies(InMemory(fails=True), tmp_path, 100)
    (tmp_path / "new").write_bytes(b"rows")
    with pytest.raises(OSError, match="503 SlowDown"):
        copies.need({"a"})
    with pytest.raises(OSError, match="503 SlowDown"):
        copies.keep(["new"])


def test_a_file_that_the_store_has_lost_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no lost"):
        LocalCopies(InMemory(), tmp_path, 100).need({"lost"})


def test_garbage_goes_and_what_is_needed_stays() -> None:
    store = InMemory(dict.fromkeys(["1-3-1-0.arrow", "1-3-2-0.arrow", "1-4-1", "left"], b""))
    data = StoredJobData(store)
    data.sweep(["1-3-1-0.arrow", "1-3-2-0.arrow", "1-4-1"])
    assert "left" not in store.files
    data.remove(["1-4-1", "unknown"])
    data.remove_like(re.compile(r"1-3.*"), ["1-3-2-0.arrow"])
    with_one_left = dict(store.files)
    data.remove_all()
    assert store.files == {}
    assert with_one_left.keys() <= {"1-4-1", "1-3-1-0.arrow", "1-3-2-0.arrow"}


def test_garbage_that_a_store_does_not_take_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    data = StoredJobData(InMemory({"a": b""}, fails=True))
    data.sweep([])
    data.remove(["a"])
    data.remove_all()
    assert "garbage stays for now: 503 SlowDown" in caplog.text
