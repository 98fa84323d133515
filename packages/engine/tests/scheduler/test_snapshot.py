"""Snapshots are read by the version that wrote them and refused by all others."""

from __future__ import annotations

import pickle
import pickletools
import zlib

import pytest

from beam_runner_engine.scheduler import snapshot as module
from beam_runner_engine.scheduler.errors import SnapshotError
from beam_runner_engine.scheduler.events import BundleDone, Output, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, StageSpec

from .samples import data


def running() -> Scheduler:
    scheduler = Scheduler(GraphSpec((StageSpec("a", ("r",)),), ("r",)))
    scheduler.handle(Start(roots=(Output("r", data("d")),)))
    return scheduler


def test_a_restored_scheduler_goes_on() -> None:
    scheduler = running()
    restored = Scheduler.restore(scheduler.snapshot())
    assert restored.open_bundles == scheduler.open_bundles
    assert restored.handle(BundleDone(0, 1)) == scheduler.handle(BundleDone(0, 1))


def test_a_scheduler_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(running())).open_bundles == running().open_bundles


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda good: b"", "not a snapshot"),
        (lambda good: b"something else", "not a snapshot"),
        (lambda good: good[:40], "not a snapshot"),
        (lambda good: good[:-1], "damaged"),
        (lambda good: good[:-1] + bytes([good[-1] ^ 1]), "damaged"),
    ],
)
def test_damage_is_found(damage: object, why: str) -> None:
    with pytest.raises(SnapshotError, match=why):
        Scheduler.restore(damage(running().snapshot()))  # type: ignore[operator]


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = running().snapshot()
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    with pytest.raises(SnapshotError, match="another version"):
        Scheduler.restore(old)


def test_other_fields_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = running().snapshot()
    monkeypatch.setattr(module, "layout", lambda: bytes(16))
    with pytest.raises(SnapshotError, match="another version"):
        Scheduler.restore(old)


def test_something_else_is_refused() -> None:
    payload = pickle.dumps("something else")
    header = module._HEADER.pack(module.FORMAT, module.layout(), zlib.crc32(payload), len(payload))
    with pytest.raises(SnapshotError, match="something else than a scheduler"):
        Scheduler.restore(module._MAGIC + header + payload)


def test_the_layout_covers_every_record_in_a_snapshot() -> None:
    """A class in the pickle whose module is not digested could change without being noticed."""
    digested = {one.__name__ for one in module._RECORDS}
    pickled = pickle.dumps(running()._state, protocol=2)
    named = {
        str(argument).split()[0]
        for opcode, argument, _ in pickletools.genops(pickled)
        if opcode.name == "GLOBAL"
    }
    own = {name for name in named if name.startswith("beam_runner_engine")}
    assert "beam_runner_engine.scheduler.state" in own
    assert own <= digested
