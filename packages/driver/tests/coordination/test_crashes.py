"""Tests of a server crash at any point of the commit protocol: the next server loses and duplicates no
data.

The job reads values, deals them to tasks, counts them by key with state, and writes everything to
files. Metrics count the elements of a stage without outputs, and are committed with the bundle. So
the metrics show the output of the job element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from beam_runner_data.rows import written
from beam_runner_engine.dispatch.driver import JobDriver
from beam_runner_engine.scheduler.commands import FinishJob, Outcome
from beam_runner_model.buffers import BufferKind
from beam_runner_storage.journal.journal import Journal
from rig import ANYWHERE, NO_LOOP, Crashed, Crashes, Rig
from sample_buffers import buffer
from small_plans import plan_of, stage
from worker_doubles import seen_in

from beam_runner_driver.coordination import coordinator
from beam_runner_driver.ledger import retrying_journal
from beam_runner_driver.ledger.ledger import JobLedger

VALUES = [b"a1", b"a2", b"b1", b"b2", b"c1", b"d1"]
PLAN = plan_of(
    [
        stage("read", None, {"out": "values"}),
        stage("spread", "values", {"deal": "dealt", "key": "pairs"}),
        stage("see", "dealt"),
        stage("count", "pairs", {"out": "counts"}, groups=True),
        stage("end", "counts"),
    ],
    [
        buffer("values", BufferKind.STORED),
        buffer("dealt", BufferKind.DEALT),
        buffer("pairs", BufferKind.GROUPED, bulk=False),
        buffer("counts", BufferKind.STORED),
    ],
)
TRANSFORMS: dict[str, Callable[[list[bytes]], dict[str, list[bytes]]]] = {
    "read": lambda _: {"out": VALUES},
    "spread": lambda values: {"deal": values, "key": values},
    "count": lambda groups: {"out": groups},
}
EXPECTED = {value.decode(): 1 for value in VALUES} | {"a=2": 1, "b=2": 1, "c=1": 1, "d=1": 1}
POINTS = (
    "before append",
    "after append",
    "before apply",
    "after apply",
    "before files go",
    "before snapshot",
    "after snapshot",
    "before commands",
    "after commands",
)
MOST_PASSES = 60
"""Upper limit of the number of passes of one server through one point."""


class _ServersDriver(JobDriver[Any]):
    """A separate class, because the scheduler loop of a worker process has no crash points of the
    server.
    """


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> Crashes:
    """Makes the protocol call its crash points. Every commit writes a file and a snapshot."""
    crashes = Crashes()

    def around(owner: Any, name: str, before: str, after: str | None) -> None:
        real = getattr(owner, name)

        def wrapped(*arguments: Any, **more: Any) -> Any:
            crashes.at(before)
            result = real(*arguments, **more)
            if after is not None:
                crashes.at(after)
            return result

        monkeypatch.setattr(owner, name, wrapped)

    monkeypatch.setattr(retrying_journal, "_ENTRIES_PER_SNAPSHOT", 3)
    monkeypatch.setattr(written, "INLINE_BYTES", 0)
    around(Journal, "append_entries", "before append", "after append")
    around(Journal, "store_snapshot", "before snapshot", "after snapshot")
    around(JobLedger, "apply_journal_entry", "before apply", "after apply")
    around(JobLedger, "take_unneeded_files", "before files go", None)
    around(_ServersDriver, "execute_commands", "before commands", "after commands")
    monkeypatch.setattr(coordinator, "JobDriver", _ServersDriver)
    return crashes


def live(place: Path, loop_bytes: int) -> bool:
    """Runs one server, and returns whether the server finished the job."""
    rig = None
    try:
        rig = Rig(place, PLAN, TRANSFORMS, loop_bytes=loop_bytes)
        rig.begin()
        rig.run()
        assert rig.ledger.end == FinishJob(Outcome.DONE)
        assert seen_in(rig.ledger.metrics.infos()) == EXPECTED
        assert seen_in(rig.metrics.compute_totals().committed) == EXPECTED
        assert list(rig.ledger.list_needed_files()) == []
        return True
    except Crashed:
        return False
    finally:
        if rig is not None:
            rig.stop()


def restart(place: Path, loop_bytes: int) -> None:
    """Runs further servers until the job is done."""
    assert live(place, loop_bytes)
    left = [path.name for path in (place / "files").iterdir()]
    assert left == []


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, 1 << 20], ids=["lanes", "loop"])
def test_job_without_crash_has_expected_output(
    tmp_path: Path, crashes: Crashes, loop_bytes: int
) -> None:
    restart(tmp_path, loop_bytes)
    assert set(crashes.passed) == set(POINTS)


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, 1 << 20], ids=["lanes", "loop"])
def test_repeatedly_crashing_server_finishes_job(
    tmp_path: Path, crashes: Crashes, loop_bytes: int
) -> None:
    """Each server dies slightly later than the previous server, so that one server lives long enough."""
    for life in range(200):
        crashes.point, crashes.countdown = ANYWHERE, life
        if live(tmp_path, loop_bytes):
            assert life > 10
            return
    raise AssertionError("no server lived to the end of the job")


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, 1 << 20], ids=["lanes", "loop"])
@pytest.mark.parametrize("point", POINTS)
def test_job_after_server_crash_at_any_point_can_be_recovered(
    tmp_path: Path, crashes: Crashes, point: str, loop_bytes: int
) -> None:
    """The crash happens at the first commit, at the second commit, and so on until the last commit."""
    for number in range(MOST_PASSES):
        place = tmp_path / str(number)
        place.mkdir()
        crashes.point, crashes.countdown, crashes.happened = point, number, False
        if live(place, loop_bytes):
            assert not crashes.happened
            one_by_one = loop_bytes == NO_LOOP and "snapshot" not in point
            assert number >= (len(PLAN.stages) if one_by_one else 1)
            return
        assert crashes.happened
        restart(place, loop_bytes)
    raise AssertionError(f"there is always one more {point!r}")
