"""Tests of local copies of stored files: available on demand, fetched once per machine, and limited in disk space."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.fetching.machine_files import MachineFileCache
from beam_runner_data.rows.files import RowFileWriter, read_referenced_rows
from beam_runner_data.rows.refs import FileRows, Segment
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from faulty_store import MemoryStore
from hypothesis import given
from hypothesis import strategies as st

NAMES = "abcdefgh"


@attrs.define(eq=False)
class Watched(MemoryStore):
    """A store that records complete fetches. With ``fails`` it doesn't respond."""

    fetched: list[str] = attrs.field(factory=list)
    fails: bool = False

    def put_file(self, name: str, source: Path) -> None:
        self._answer()
        super().put_file(name, source)

    def fetch_file(self, name: str, target: Path) -> int:
        self._answer()
        self.fetched.append(name)
        return super().fetch_file(name, target)

    def _answer(self) -> None:
        if self.fails:
            raise StoreError("503 SlowDown")


def segment(name: str) -> Segment:
    return Segment(name, 1)


def copies_of(machine: MachineFileCache, folder: Path, spare: int = 0) -> FileCache:
    folder.mkdir()
    return FileCache(folder, machine, spare_bytes=spare)


def process(store: MemoryStore, folder: Path, spare: int = 0) -> FileCache:
    """Returns the copies of one process of the machine with this folder."""
    return copies_of(MachineFileCache(store, folder), folder / "own", spare)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sets(st.sampled_from(NAMES), max_size=4)), max_size=12
    ),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_file_cache_has_needed_files_and_limits_unused_files(
    tmp_path_factory: pytest.TempPathFactory,
    needs: list[tuple[int, set[str]]],
    most: int,
    spare: int,
) -> None:
    """Two processes share one machine."""
    size = 4096  # a block of the disk
    store = MemoryStore({name: name.encode() * size for name in NAMES})
    folder = tmp_path_factory.mktemp("copies")
    machine = MachineFileCache(store, folder, most * size)
    both = [copies_of(machine, folder / str(number), spare * size) for number in (0, 1)]
    needed: list[set[str]] = [set(), set()]
    for number, names in needs:
        both[number].fetch_referenced_files(map(segment, names))
        needed[number] = names
        for one, its in enumerate(needed):
            here = files_in(folder / str(one))
            assert its <= here.keys()
            assert all(store.files[name] == contents for name, contents in here.items())
            assert len(here) <= max(spare, len(its))
        unused = [path for path in (folder / "files").iterdir() if path.stat().st_nlink == 1]
        # The limit is checked when a file arrives, and before other files are released.
        assert len(unused) <= most + len(NAMES)


def test_file_cache_above_limit_deletes_files_unused_by_all_processes(tmp_path: Path) -> None:
    store = MemoryStore({name: name.encode() * 4096 for name in NAMES})
    machine = MachineFileCache(store, tmp_path, 2 * 4096)
    one, other = (copies_of(machine, tmp_path / name) for name in ("one", "other"))
    other.fetch_referenced_files([segment("a")])
    for name in "bcdefg":
        one.fetch_referenced_files([segment(name)])
    here = files_in(tmp_path / "files")
    # The last two unused files stay, or the files that were checked before their release.
    assert here.keys() >= {"a", "g"}
    assert len(here) <= 5
    assert files_in(tmp_path / "other") == {"a": b"a" * 4096}


def test_file_cache_does_not_fetch_local_files_again(tmp_path: Path) -> None:
    store = Watched({"a": b"1", "b": b"2"})
    machine = MachineFileCache(store, tmp_path)
    one, other = (copies_of(machine, tmp_path / name) for name in ("one", "other"))
    one.fetch_referenced_files([segment("a")])
    one.fetch_referenced_files([segment("a"), segment("b")])
    one.fetch_referenced_files([])
    other.fetch_referenced_files([segment("b"), segment("a")])
    assert store.fetched == ["a", "b"]
    assert files_in(tmp_path / "other") == {"a": b"1", "b": b"2"}
    assert files_in(tmp_path / "one") == {}


def test_file_cache_fetches_concurrently_requested_file_once(tmp_path: Path) -> None:
    store = Watched({name: name.encode() for name in NAMES})
    machines = [MachineFileCache(store, tmp_path) for _ in range(4)]
    all_copies = [copies_of(made, tmp_path / str(n)) for n, made in enumerate(machines)]
    threads = [
        threading.Thread(target=copies.fetch_referenced_files, args=(list(map(segment, NAMES)),))
        for copies in all_copies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(store.fetched) == sorted(NAMES)
    for number in range(4):
        assert files_in(tmp_path / str(number)) == store.files


def test_file_cache_fetches_rows_of_file_on_demand(tmp_path: Path) -> None:
    writer = RowFileWriter(tmp_path / "written")
    for number in range(40):
        writer.write(Row(0, RowKind.ELEMENTS, bytes([number]) * 300_000, 1))
    ref = FileRows("1-1-1-0.arrow", (3,), checksum=writer.close())
    store = Watched()
    store.put_file(ref.path, tmp_path / "written")
    machine = MachineFileCache(store, tmp_path)
    one, other = (copies_of(machine, tmp_path / name, 1 << 30) for name in ("one", "other"))

    def read(name: str, *rows: int) -> list[int]:
        return [
            data[0]
            for _, data in read_referenced_rows(tmp_path / name, attrs.evolve(ref, rows=rows))
        ]

    one.fetch_referenced_files([ref])
    assert read("one", 3) == [3]
    other.fetch_referenced_files([attrs.evolve(ref, rows=(30, 31)), attrs.evolve(ref, rows=(12,))])
    assert read("other", 30, 12, 31) == [30, 12, 31]
    one.fetch_referenced_files([attrs.evolve(ref, rows=(12, 20))])
    assert read("one", 3, 12, 20) == [3, 12, 20]
    here = (tmp_path / "files" / ref.path).stat()
    assert here.st_blocks * 512 < here.st_size * 0.6
    assert store.fetched == []


def test_file_cache_stores_files_written_by_process_at_commit(tmp_path: Path) -> None:
    store = Watched()
    machine = MachineFileCache(store, tmp_path)
    one, other = (copies_of(machine, tmp_path / name) for name in ("one", "other"))
    (tmp_path / "one" / "new").write_bytes(b"rows")
    one.fetch_referenced_files([segment("new")])  # as the loop inside a task does before its report
    one.fetch_referenced_files([])
    assert store.files == {}
    one.persist_files(["new"])
    assert store.files == {"new": b"rows"}
    other.fetch_referenced_files([segment("new")])
    assert files_in(tmp_path / "other") == {"new": b"rows"}
    assert store.fetched == []


def test_file_cache_retains_files_of_scheduler_loop_until_next_loop_starts(tmp_path: Path) -> None:
    store = MemoryStore({"state": b"1", "a": b"2", "b": b"3"})
    copies = process(store, tmp_path)
    copies.fetch_files({"state"})
    own = tmp_path / "own"
    (own / "written").write_bytes(b"4")
    copies.persist_files(["written"], hold=True)
    for name in ("a", "b"):
        copies.fetch_referenced_files([segment(name)])
        assert files_in(own).keys() == {"state", "written", name}
    copies.fetch_files(())
    assert files_in(own).keys() == {"b"}


def test_file_cache_with_unresponsive_store_raises_unavailable(tmp_path: Path) -> None:
    copies = process(Watched(fails=True), tmp_path)
    (tmp_path / "own" / "new").write_bytes(b"rows")
    with pytest.raises(ExternalSystemUnavailable, match="503 SlowDown"):
        copies.fetch_referenced_files([segment("a")])
    with pytest.raises(ExternalSystemUnavailable, match="503 SlowDown"):
        copies.persist_files(["new"])


def test_file_cache_error_names_file_that_store_lost(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no lost"):
        process(MemoryStore(), tmp_path).fetch_referenced_files([segment("lost")])


def test_side_input_index_built_by_one_process_is_shared(tmp_path: Path) -> None:
    machine = MachineFileCache(MemoryStore(), tmp_path)
    for name in ("one", "other"):
        copies_of(machine, tmp_path / name)
    (tmp_path / "one" / "side" / "index").mkdir()
    assert (tmp_path / "other" / "side" / "index").is_dir()


_WAITS = """
import sys
from pathlib import Path
from beam_runner_data.fetching.machine_files import MachineFileCache
from faulty_store import MemoryStore

class Hanging(MemoryStore):
    def fetch_file(self, name, target):
        print("asked", flush=True)
        sys.stdin.read()

folder = Path(sys.argv[1])
MachineFileCache(Hanging(), folder).link_file("a", None, folder / "b")
"""


def test_process_killed_during_fetch_does_not_block_other_processes(tmp_path: Path) -> None:
    doubles = str(Path(__file__).parents[4] / "tests" / "doubles")
    hanging = subprocess.Popen(
        [sys.executable, "-c", _WAITS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, doubles])},
    )
    assert hanging.stdout is not None
    assert hanging.stdout.readline() == b"asked\n"
    copies = process(MemoryStore({"a": b"1"}), tmp_path)
    thread = threading.Thread(target=copies.fetch_referenced_files, args=([segment("a")],))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    hanging.kill()
    hanging.wait()
    thread.join(20)
    assert files_in(tmp_path / "own") == {"a": b"1"}
