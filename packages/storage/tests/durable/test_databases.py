"""Tests of databases: a damaged database is preserved next to the new database, and foreign files stay unchanged."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import pytest

from beam_runner_storage.durable.databases import (
    DatabaseSchema,
    begin_transaction,
    copy_damaged_database,
    open_database,
)
from beam_runner_storage.durable.folders import lock_folder, wait_for_release
from beam_runner_storage.errors import StorageError

SCHEMA = DatabaseSchema(3, "CREATE TABLE numbers (number INTEGER PRIMARY KEY, text TEXT UNIQUE);")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.sqlite"


def fill(path):
    connection, damage = open_database(path, SCHEMA, durable=True)
    with closing(connection):
        rows = [(number, f"text {number}" * 10) for number in range(1000)]
        with begin_transaction(connection):
            connection.executemany("INSERT INTO numbers VALUES (?, ?)", rows)
    return damage


def count(connection):
    return connection.execute("SELECT count(*) FROM numbers").fetchone()[0]


def test_database_contains_committed_rows_after_reopen(path, tmp_path):
    assert fill(path) is None
    connection, damage = open_database(path, SCHEMA, durable=False)
    with closing(connection):
        assert count(connection) == 1000
        assert damage is None
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o077 == 0


def test_database_contains_no_row_of_aborted_transaction(path):
    fill(path)
    connection, _ = open_database(path, SCHEMA, durable=False)
    with closing(connection):
        with pytest.raises(KeyError), begin_transaction(connection):
            connection.execute("DELETE FROM numbers")
            raise KeyError
        assert not connection.in_transaction
        assert count(connection) == 1000


def test_copy_of_partly_damaged_database_is_private_to_user(path):
    fill(path)
    connection, _ = open_database(path, SCHEMA, durable=False)
    with closing(connection):
        copies = [copy_damaged_database(connection, path) for _ in range(2)]
    assert [copy.name for copy in copies] == ["some.sqlite.damaged-1", "some.sqlite.damaged-2"]
    assert all(copy.stat().st_mode & 0o077 == 0 for copy in copies)
    with closing(sqlite3.connect(copies[0])) as kept:
        assert count(kept) == 1000


@pytest.mark.parametrize("page", [0, 2, 5, 9])
def test_database_with_damaged_page_is_moved_aside_unchanged(path, page):
    fill(path)
    content = bytearray(path.read_bytes())
    assert len(content) > 10 * 4096
    content[page * 4096 : page * 4096 + 200] = b"\xfe" * 200
    path.write_bytes(content)
    connection, damage = open_database(path, SCHEMA, durable=True)
    with closing(connection):
        assert count(connection) == 0
    kept = path.with_name("some.sqlite.damaged-1")
    assert f"{path} is damaged" in damage
    assert damage.endswith(f"is stored as {kept}")
    assert kept.read_bytes() == bytes(content)
    assert open_and_close(path) is None


def test_truncated_database_is_reported_as_damaged(path):
    fill(path)
    path.write_bytes(path.read_bytes()[:8192])
    assert "is damaged" in open_and_close(path)


def open_and_close(path):
    connection, damage = open_database(path, SCHEMA, durable=True)
    connection.close()
    return damage


def test_database_file_left_by_crash_during_creation_is_ignored(path):
    path.with_name("some.sqlite.new").write_bytes(b"half")
    assert open_and_close(path) is None


def test_database_of_another_program_is_refused_and_unchanged(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE precious (content)")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="another program, or by another version"):
        open_database(path, SCHEMA, durable=True)
    assert path.read_bytes() == before


def test_unreadable_database_file_is_not_reported_as_damage(path):
    path.mkdir()
    with pytest.raises(StorageError, match="Can't open"):
        open_database(path, SCHEMA, durable=True)
    assert path.is_dir()


def test_folder_lock_has_one_holder_at_the_same_time(tmp_path):
    folder = tmp_path / "deep" / "folder"
    first = lock_folder(folder, "lock", "artifacts")
    with pytest.raises(StorageError, match=f"artifacts folder {folder} is in use"):
        lock_folder(folder, "lock", "artifacts")
    first.close()
    lock_folder(folder, "lock", "artifacts").close()


def test_wait_for_a_folder_lock_ends_with_its_release(tmp_path):
    first = lock_folder(tmp_path / "folder", "lock", "state")
    closing = threading.Timer(0.3, first.close)
    closing.start()
    assert wait_for_release(tmp_path / "folder", "lock", "state", threading.Event(), 0.01)
    assert first.closed


def test_wait_for_a_folder_lock_ends_on_request(tmp_path):
    first = lock_folder(tmp_path / "folder", "lock", "state")
    stopping = threading.Event()
    threading.Timer(0.3, stopping.set).start()
    assert not wait_for_release(tmp_path / "folder", "lock", "state", stopping, 0.01)
    first.close()


def test_state_folder_that_cannot_be_created_is_reported_by_name(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorageError, match=f"Can't use {file} as state folder: the path exists"):
        lock_folder(file, "lock", "state")
    below = file / "folder"
    with pytest.raises(StorageError, match=f"Can't use {below} as state folder: Not a direc"):
        lock_folder(below, "lock", "state")
