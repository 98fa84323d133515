"""Damages to the journal of a closed or killed server; each damage must be detected or harmless."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
from beam_runner_model.errors import RunnerError
from beam_runner_storage.journal.journal import RecoveredJournal
from beam_runner_storage.journal.store import FILE, JournalStore

CLOSED, KILLED = "closed", "killed"
JOBS = ("first", "second", "third")
_PAGE = 4096


@attrs.frozen
class Folder:
    """State folder after the exit of a server: its files, their earlier versions, and the correct state."""

    files: dict[str, bytes]
    before: dict[str, bytes]
    right: dict[str, RecoveredJournal]


def left_folder(path: Path, seed: int, end: str) -> Folder:
    """Returns the folder of a server that was closed, or killed after its last commit."""
    rng = random.Random(seed)
    store = JournalStore(path, durable=False)
    before: dict[str, bytes] = {}
    turn = rng.randrange(5, 55)
    for number in range(60):
        job = rng.choice(JOBS)
        if number < len(JOBS):
            store.get_journal(JOBS[number]).store_snapshot(b"begin")
        elif rng.random() < 0.1:
            store.get_journal(job).store_snapshot(rng.randbytes(rng.choice((300, 9000))))
        else:
            store.get_journal(job).append_entries([rng.randbytes(rng.choice((30, 500, 9000)))])
        if number == turn:
            if rng.random() < 0.5:
                _checkpoint(store)
            before = _contents(path)
    right = {job: store.get_journal(job).read_committed_data() for job in JOBS}
    after = _contents(path)
    store.close()
    if end == CLOSED:
        after = _contents(path)
    return Folder(after, before, right)


def _checkpoint(store: JournalStore) -> None:
    assert store._connection is not None
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def damaged(folder: Folder, rng: random.Random) -> tuple[str, dict[str, bytes]]:
    """Returns a damage to one file: its description and the damaged bytes."""
    files = dict(folder.files)
    name = rng.choice(sorted(name for name in files if name.startswith(FILE)))
    content = bytearray(files[name])
    kind = rng.choice(("deleted", "truncated", "zeroed", "flipped", "older"))
    if kind == "older" and folder.before.get(name) in (None, files[name]):
        kind = "flipped"
    at = rng.randrange(len(content)) if content else 0
    if kind == "deleted":
        del files[name]
    elif kind == "older":
        files[name] = folder.before[name]
    else:
        if kind == "truncated":
            del content[at:]
        elif kind == "zeroed":
            at -= at % _PAGE
            content[at : at + _PAGE] = bytes(len(content[at : at + _PAGE]))
        elif content:
            content[at] ^= 1 << rng.randrange(8)
        files[name] = bytes(content)
    return f"{name} {kind} at {at} of {len(content)}", files


def outcome(path: Path, files: dict[str, bytes], right: dict[str, RecoveredJournal]) -> str:
    """Returns the next server's outcome for a folder: "whole", "told" or "silent"."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, content in files.items():
        (path / name).write_bytes(content)
    try:
        store = JournalStore(path, durable=False)
    except RunnerError:
        return "told"
    try:
        found = {job: store.get_journal(job).read_committed_data() for job in JOBS}
        told = bool(store.damage)
    except RunnerError:
        return "told"
    finally:
        store.close()
    if found == right:
        return "whole"
    return "told" if told else "silent"


def outcomes(path: Path, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Returns this number of damages with their outcomes."""
    rng = random.Random(seed)
    left: list[Folder] = []
    for number in range(count):
        if number % 20 == 0:
            source = path / f"source-{number}"
            left = [
                left_folder(source / end, rng.randrange(2**32), end) for end in (CLOSED, KILLED)
            ]
            shutil.rmtree(source)
        folder = left[number % 2]
        what, files = damaged(folder, rng)
        yield what, outcome(path / "damaged", files, folder.right)
