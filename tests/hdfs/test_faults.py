"""Tests of HDFS faults: accepted data is stored completely and once, and refused data isn't stored."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from beam_runner_storage.stores import hdfs_calls
from beam_runner_storage.stores.ports import MissingFileError, StoreError
from beam_runner_storage.stores.spec import StoreSpec
from cut_line import CutLine
from hdfs_servers import DATA_NODE, NAMENODE, HdfsServers, write_settings

_AWAY_SECONDS = 10.0
_PATIENCE_SECONDS = 120.0
"""Limit in seconds, longer than the start and the block reports of a namenode on a busy machine."""
_MEGABYTES = 20


@pytest.fixture
def spec(hdfs: HdfsServers) -> Iterator[StoreSpec]:
    """Yields a separate folder, which disappears after the test when its files are removed."""
    made = StoreSpec(f"{hdfs.url}/faults/{secrets.token_hex(8)}")
    yield made
    store = made.open_store()
    store.delete_files(list(store.list_names()))
    assert list(store.list_names()) == []


def made(folder: Path, name: str, megabytes: int = 1) -> Path:
    source = folder / name
    source.write_bytes(secrets.token_bytes(megabytes << 20))
    return source


_WRITER = """
import sys
from pathlib import Path
from beam_runner_storage.stores import hdfs
from beam_runner_storage.stores.spec import StoreSpec
def pieces(source):
    while True:
        yield bytes(1 << 20)
        print("written", flush=True)
hdfs._read_pieces = pieces
StoreSpec(sys.argv[1]).open_store().put_file("file", Path("any"))
"""


def test_hdfs_file_of_a_killed_writer_is_invisible(spec: StoreSpec, tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, spec.url], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(8):
        assert writer.stdout.readline() == "written\n"
    store = spec.open_store()
    with pytest.raises(MissingFileError):
        store.fetch_file("file", tmp_path / "target")
    writer.kill()
    writer.wait()
    with pytest.raises(MissingFileError):
        store.read_file("file")
    (left,) = store.list_names()
    assert left.startswith(".writing/file.")
    assert store.create_file("file", b"another's")
    store.delete_unfinished_files("other")
    assert left in store.list_names()
    store.delete_unfinished_files("fi")
    assert list(store.list_names()) == ["file"]


def test_killed_hdfs_namenode_is_retried_until_it_is_restarted(
    hdfs: HdfsServers, spec: StoreSpec, tmp_path: Path
) -> None:
    store = spec.open_store(_PATIENCE_SECONDS)
    before = made(tmp_path, "before")
    store.put_file("before", before)
    hdfs.kill(NAMENODE)
    with ThreadPoolExecutor() as threads:
        meanwhile = made(tmp_path, "meanwhile", _MEGABYTES)
        waiting = [
            threads.submit(store.put_file, "meanwhile", meanwhile),
            threads.submit(store.fetch_file, "before", tmp_path / "fetched"),
            threads.submit(store.create_file, "created", b"once"),
        ]
        time.sleep(_AWAY_SECONDS)
        assert not any(one.done() for one in waiting)
        hdfs.start(NAMENODE)
        results = [one.result() for one in waiting]
    assert results == [None, before.stat().st_size, True]
    assert (tmp_path / "fetched").read_bytes() == before.read_bytes()
    assert store.read_file("meanwhile") == meanwhile.read_bytes()
    assert {"before", "meanwhile", "created"} <= set(store.list_names())


@pytest.mark.parametrize("program", [NAMENODE, DATA_NODE], ids=["namenode", "data node"])
def test_unresponsive_hdfs_namenode_is_retried_for_a_limited_time(
    hdfs: HdfsServers, spec: StoreSpec, tmp_path: Path, program: str
) -> None:
    patience = 3.0
    store = spec.open_store(patience)
    source = made(tmp_path, "source")
    store.put_file("before", source)
    with hdfs.silent(program):
        began = time.monotonic()
        with pytest.raises(StoreError, match="failed to write file: "):
            store.put_file("file", source)
        assert time.monotonic() - began < 4 * patience
    again = spec.open_store(_PATIENCE_SECONDS)
    again.put_file("file", source)
    assert again.fetch_file("file", tmp_path / "target") == source.stat().st_size


@pytest.mark.parametrize("seed", range(2))
def test_lost_hdfs_responses_lose_and_duplicate_no_data(
    hdfs: HdfsServers,
    spec: StoreSpec,
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A block that only the namenode knows keeps a file open, so that each call waits for its limit.
    monkeypatch.setattr(hdfs_calls, "_ANSWER_SECONDS", 2.0)
    line = CutLine(hdfs.port, seed, share=0.03)
    cut = StoreSpec(spec.url.replace(f":{hdfs.port}/", f":{line.port}/"))
    rivals, names = 3, [f"a/{number}" for number in range(8)]

    def rival(number: int) -> list[bool | None]:
        store = cut.open_store(_PATIENCE_SECONDS)
        taken: list[bool | None] = []
        for name in names:
            contents = f"{number} has {name}".encode()
            # As in the log: a writer that gets "already exists" checks whether the file is its own.
            taken.append(store.create_file(name, contents) or store.read_file(name) == contents)
            source = tmp_path / f"{number}"
            source.write_bytes(contents)
            store.put_file(f"{number}/{name}", source)
        return taken

    with ThreadPoolExecutor(rivals) as threads:
        taken = list(threads.map(rival, range(rivals)))
    line.close()
    print(f"CUT {line.cuts} times", flush=True)
    assert line.cuts > rivals
    store = spec.open_store()
    for at, name in enumerate(names):
        (winner,) = (number for number in range(rivals) if taken[number][at])
        assert store.read_file(name) == f"{winner} has {name}".encode()
        for number in range(rivals):
            assert store.read_file(f"{number}/{name}") == f"{number} has {name}".encode()
    store.delete_files(names)
    store.delete_files(names)


def test_hdfs_name_service_with_an_unresponsive_first_namenode_works(
    hdfs: HdfsServers, spec: StoreSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        service = {
            "dfs.nameservices": "pair",
            "dfs.ha.namenodes.pair": "first,second",
            "dfs.namenode.rpc-address.pair.first": f"127.0.0.1:{mute.getsockname()[1]}",
            "dfs.namenode.rpc-address.pair.second": f"127.0.0.1:{hdfs.port}",
        }
        write_settings(tmp_path / "conf", service)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
        folder = spec.url.partition(str(hdfs.port))[2]
        store = StoreSpec(f"hdfs://pair{folder}").open_store(_PATIENCE_SECONDS)
        store.put_file("file", made(tmp_path, "source"))
        assert list(store.list_names()) == ["file"]
