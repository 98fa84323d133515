"""Tests that opening a sealed database detects any loss."""

from __future__ import annotations

import random
import shutil
import sqlite3
import zlib
from contextlib import closing

import pytest

from beam_runner_storage.durable.databases import SEAL_SUFFIX, DatabaseSchema, open_database
from beam_runner_storage.durable.seals import SEAL_TABLE, DatabaseSeal, Seal

SEALED = DatabaseSchema(
    1, f"CREATE TABLE texts (number INTEGER PRIMARY KEY, text TEXT NOT NULL);{SEAL_TABLE}"
)


def checksums(connection):
    for number, text in connection.execute("SELECT number, text FROM texts"):
        yield zlib.crc32(f"{number} {text}".encode())


class Texts:
    """A sealed database of texts by number."""

    def __init__(self, path):
        self.connection, self.set_aside = open_database(path, SEALED, durable=True)
        self.seals = DatabaseSeal(path)
        self.damage = self.set_aside or self.seals.check_content(
            self.connection, checksums(self.connection)
        )

    def put(self, number, text):
        with self.seals.begin_sealed_transaction(self.connection) as change:
            found = self.connection.execute("SELECT text FROM texts WHERE number = ?", (number,))
            before = found.fetchone()
            self.connection.execute("REPLACE INTO texts VALUES (?, ?)", (number, text))
            change(
                None if before is None else zlib.crc32(f"{number} {before[0]}".encode()),
                zlib.crc32(f"{number} {text}".encode()),
            )

    def remove(self, number, text):
        with self.seals.begin_sealed_transaction(self.connection) as change:
            self.connection.execute("DELETE FROM texts WHERE number = ?", (number,))
            change(zlib.crc32(f"{number} {text}".encode()), None)

    def close(self):
        self.connection.close()
        self.seals.close()

    def content(self):
        return dict(self.connection.execute("SELECT number, text FROM texts"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.sqlite"


def opened(path):
    return closing(Texts(path))


def copy(path, to):
    """Copies the files of an open database, as a kill would leave them."""
    to.mkdir()
    for suffix in ("", "-wal", SEAL_SUFFIX):
        if (file := path.with_name(path.name + suffix)).exists():
            shutil.copy(file, to / file.name)
    return to / path.name


def damage_of(path):
    with opened(path) as texts:
        return texts.damage


def test_sealed_database_is_intact_after_close_and_after_kill(path, tmp_path):
    with opened(path) as texts:
        assert texts.damage is None
        texts.put(1, "one")
        texts.put(1, "two")
        texts.put(2, "three")
        texts.remove(2, "three")
        killed = copy(path, tmp_path / "killed")
    for whole in (path, killed):
        with opened(whole) as again:
            assert again.damage is None
            assert again.content() == {1: "two"}
            again.put(3, "four")
        assert damage_of(whole) is None
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.glob(f"{path.name}*"))


def test_database_checksum_does_not_include_failed_transaction(path):
    with opened(path) as texts:
        with (
            pytest.raises(KeyError),
            texts.seals.begin_sealed_transaction(texts.connection) as change,
        ):
            change(None, 1)
            raise KeyError
        texts.put(1, "one")
    assert damage_of(path) is None


def test_crash_between_commit_and_checksum_update_is_not_reported_as_damage(path, tmp_path):
    with opened(path) as texts:
        texts.put(1, "one")
        before = copy(path, tmp_path / "before")
        texts.put(1, "two")
        after = copy(path, tmp_path / "after")
    shutil.copy(f"{before}{SEAL_SUFFIX}", f"{after}{SEAL_SUFFIX}")
    assert damage_of(after) is None


def killed_in_a_commit(path, to):
    """Returns the path of a database whose process was killed after a commit and before the seal of
    this commit. Also returns the first line of the seal file before the commit.
    """
    with opened(path) as texts:
        texts.put(1, "one")
        done = seal_lines(path)[0]
        texts.put(1, "two")
        killed = copy(path, to)
    seal = killed.with_name(killed.name + SEAL_SUFFIX)
    seal.write_bytes(done + seal_lines(killed)[1])
    return killed


def seal_lines(path):
    return path.with_name(path.name + SEAL_SUFFIX).read_bytes().splitlines(keepends=True)


def test_commit_before_kill_is_readable(path, tmp_path):
    killed = killed_in_a_commit(path, tmp_path / "killed")
    with opened(killed) as texts:
        assert (texts.damage, texts.seals.is_unfinished) == (None, False)
        assert texts.content() == {1: "two"}
        assert len(set(seal_lines(killed))) == 1


def test_commit_interrupted_by_kill_is_not_reported_as_damage(path, tmp_path):
    killed = killed_in_a_commit(path, tmp_path / "killed")
    log = killed.with_name(f"{killed.name}-wal")
    log.write_bytes(log.read_bytes()[:-1])
    for is_unfinished in (True, False):
        with opened(killed) as texts:
            assert (texts.damage, texts.seals.is_unfinished) == (None, is_unfinished)
            assert texts.content() == {1: "one"}


def test_commit_that_differs_from_its_checksum_is_reported_as_damage(path, tmp_path):
    killed = killed_in_a_commit(path, tmp_path / "killed")
    done, begun = seal_lines(killed)
    with opened(path) as texts:
        texts.put(3, "three")
    other = seal_lines(path)[1].split()
    seal = Seal(int(begun.split()[0], 16), int(begun.split()[1]), int(other[2]), int(other[3], 16))
    killed.with_name(killed.name + SEAL_SUFFIX).write_bytes(done + seal.encoded_line)
    assert damage_of(killed) == "the last change differs from the sealed change"


def test_failed_commit_leaves_checksum_file_unchanged(path):
    with opened(path) as texts:
        texts.put(1, "one")
        before = seal_lines(path)
        texts.connection.executescript(
            "PRAGMA foreign_keys = ON;"
            "CREATE TABLE notes (text REFERENCES texts (number) DEFERRABLE INITIALLY DEFERRED)"
        )
        refused = pytest.raises(sqlite3.IntegrityError)
        with refused, texts.seals.begin_sealed_transaction(texts.connection):
            texts.connection.execute("INSERT INTO notes VALUES (99)")
        assert seal_lines(path) == before


def test_checksum_file_of_older_version_with_one_line_is_read(path):
    with opened(path) as texts:
        texts.put(1, "one")
    seal = path.with_name(path.name + SEAL_SUFFIX)
    seal.write_bytes(seal_lines(path)[0])
    assert damage_of(path) is None
    assert len(seal_lines(path)) == 2


def test_missing_write_ahead_log_is_reported_as_damage(path, tmp_path):
    with opened(path) as texts:
        for number in range(5):
            texts.put(number, "text")
        killed = copy(path, tmp_path / "killed")
    killed.with_name(f"{killed.name}-wal").unlink()
    assert damage_of(killed) is not None


def test_older_copy_of_database_is_reported_once(path, tmp_path):
    with opened(path) as texts:
        texts.put(1, "one")
    older = copy(path, tmp_path / "older")
    with opened(path) as texts:
        texts.put(1, "two")
        texts.put(2, "three")
    shutil.copy(older, path)
    with opened(path) as texts:
        assert texts.damage == "the last 2 changes are missing"
        texts.seals.renew_seal(texts.connection, checksums(texts.connection))
        texts.put(1, "two")
    assert damage_of(path) is None


def test_database_that_does_not_match_its_checksum_file_is_reported_as_damage(path, tmp_path):
    other = tmp_path / "other.sqlite"
    for made in (path, other):
        with opened(made) as texts:
            texts.put(1, "one")
    shutil.copy(other, path)
    assert damage_of(path) == "the seal file belongs to another database"


@pytest.mark.parametrize("content", [None, b"", b"damaged", b"0 0 0 0 0\n", b"\0" * 100])
def test_missing_checksum_file_is_reported_as_damage(path, content):
    with opened(path) as texts:
        texts.put(1, "one")
    seal = path.with_name(path.name + SEAL_SUFFIX)
    if content is None:
        seal.unlink()
    else:
        seal.write_bytes(content)
    assert damage_of(path).startswith("the seal file is")


def test_checksum_file_without_its_database_is_reported_and_preserved(path):
    with opened(path) as texts:
        texts.put(1, "one")
    seal = path.with_name(path.name + SEAL_SUFFIX).read_bytes()
    path.unlink()
    assert "is missing" in damage_of(path)
    assert path.with_name(f"{path.name}.damaged-1{SEAL_SUFFIX}").read_bytes() == seal
    assert damage_of(path) is None


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM texts WHERE number = 3",
        "INSERT INTO texts VALUES (99, 'more')",
        "UPDATE texts SET text = 'other' WHERE number = 3",
        "DELETE FROM seal",
        "UPDATE seal SET number = 1",
    ],
)
def test_database_write_without_checksum_update_is_reported_as_damage(path, statement):
    with opened(path) as texts:
        for number in range(5):
            texts.put(number, "text")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    assert damage_of(path) is not None


def test_random_damage_of_sealed_database_is_harmless_or_reported(path, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with opened(path) as texts:
        for number in range(30):
            texts.put(number % 7, "text" * dice.randrange(2000))
        content = texts.content()
        killed = copy(path, tmp_path / "killed")
    for number in range(120):
        damaged = copy(killed if dice.random() < 0.6 else path, tmp_path / f"damaged-{number}")
        aim = damaged.with_name(damaged.name + dice.choice(["", "-wal", SEAL_SUFFIX]))
        if not aim.exists():
            continue
        data = bytearray(aim.read_bytes())
        at = dice.randrange(len(data))
        match dice.choice(["flip", "zero", "truncate", "delete"]):
            case "flip":
                data[at] ^= 1 << dice.randrange(8)
            case "zero":
                data[at : at + 600] = bytes(len(data[at : at + 600]))
            case "truncate":
                del data[at:]
            case "delete":
                aim.unlink()
                data = None
        if data is not None:
            aim.write_bytes(data)
        with opened(damaged) as texts:
            assert texts.damage or texts.content() == content, f"seed {seed}, damage {number}"
        shutil.rmtree(damaged.parent)


class InterruptedConnection:
    """Connection on which an error of the interpreter follows a commit, or prevents the commit."""

    def __init__(self, connection, *, commits):
        self._connection, self._commits = connection, commits

    def execute(self, *arguments):
        return self._connection.execute(*arguments)

    def __enter__(self):
        return self._connection.__enter__()

    def __exit__(self, *error):
        if self._commits:
            self._connection.commit()
        else:
            self._connection.rollback()
        raise KeyboardInterrupt


@pytest.mark.parametrize("commits", [True, False])
def test_database_is_whole_after_an_error_that_interrupts_a_commit(path, commits):
    with opened(path) as texts:
        texts.put(1, "one")
        connection = texts.connection
        texts.connection = InterruptedConnection(connection, commits=commits)
        with pytest.raises(KeyboardInterrupt):
            texts.put(2, "two")
        texts.connection = connection
        texts.put(3, "three")
    with opened(path) as again:
        assert again.damage is None
        assert again.content() == {1: "one", 3: "three"} | ({2: "two"} if commits else {})
