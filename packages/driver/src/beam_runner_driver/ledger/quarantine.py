"""Quarantine of a job: the rules for elements that always fail, and the committed list of these elements."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_engine.scheduler.events import Redeliver
from beam_runner_model.quarantine import QuarantinedUnit
from beam_runner_model.times import Timestamp
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.isolation import IsolationOrder
from beam_runner_runtime.quarantine_options import QUARANTINE_LIMIT, QUARANTINE_PER_HOUR
from beam_runner_storage.stores.spec import StoreSpec

_HOUR = 3_600_000
_MINUTE = 60_000
"""Period (ms) of commits that share one entry of `QuarantineState.recent`."""


@attrs.frozen
class QuarantinedFile:
    """Record of one quarantine file. The file contains the failing units (elements, groups, timers)
    of one commit.

    Attributes:
        stage: identity of the stage that read the units, in the job's current plan. Empty if an
            update removed the stage.
        count: number of units.
        replayed: row numbers of the units that a replay has fed back into the job.
        coders: description of the coder of the units and of the stage's coder, if an update has
            changed the coder; otherwise empty.
    """

    stage: str
    count: int
    replayed: frozenset[int] = frozenset()
    coders: tuple[str, ...] = ()


@attrs.frozen
class ReplayedUnits:
    """Journal entry: a replay feeds quarantined units (elements, groups, timers) back into the
    stages that read them.

    Attributes:
        rows: the replayed units, as row numbers by name of the quarantine file.
        deliveries: the data of the units, by stage.
    """

    rows: tuple[tuple[str, int], ...]
    deliveries: tuple[Redeliver, ...]


@attrs.define
class QuarantineState:
    """Committed record of the units (elements, groups, timers) that went to quarantine because they
    always fail.

    Attributes:
        count: total number of quarantined units.
        by_step: number of quarantined units, by full name of the step.
        recent: times (ms) and numbers of units of the commits within the last hour, by minute.
        pending: units that the server has not yet written to the quarantine's store, by file name.
        last: the last unit, without its value and traceback; None without units.
        files: units of all commits, by file name. Updates and savepoints pass this list on to the
            next job, so that replays process each unit only once.
    """

    count: int = 0
    by_step: dict[str, int] = attrs.field(factory=dict)
    recent: list[tuple[Timestamp, int]] = attrs.field(factory=list)
    pending: dict[str, tuple[QuarantinedUnit, ...]] = attrs.field(factory=dict)
    last: QuarantinedUnit | None = None
    files: dict[str, QuarantinedFile] = attrs.field(factory=dict)

    def record_units(
        self,
        job_id: str,
        attempt: Attempt,
        units: tuple[QuarantinedUnit, ...],
        now: Timestamp,
        stage: str,
    ) -> None:
        """Records the units (elements, groups, timers) that one committed attempt at a bundle sent
        to quarantine, at processing time `now` (ms).

        `stage` is the identity of the bundle's stage. The name of the file contains the ID of this
        job, even if an update passes the units to another job. Therefore, both jobs write the same
        file.
        """
        name = f"{job_id}/{attempt.bundle:010}-{attempt.attempt}.parquet"
        self.pending[name] = units
        self.files[name] = QuarantinedFile(stage, len(units))
        self.count += len(units)
        for unit in units:
            self.by_step[unit.step] = self.by_step.get(unit.step, 0) + 1
        self.recent = [(time, count) for time, count in self.recent if time > now - _HOUR]
        added = len(units)
        if self.recent and self.recent[-1][0] > now - _MINUTE:
            added += self.recent.pop()[1]
        self.recent.append((now, added))
        self.last = attrs.evolve(units[-1], value=b"", trace="")

    def is_replayed(self, file: str, row: int) -> bool:
        """Returns whether a replay has fed a unit (a row of a quarantine file) back into the job."""
        return row in self.files[file].replayed

    def mark_replayed(self, rows: Iterable[tuple[str, int]]) -> None:
        """Records that a replay has fed units (rows of quarantine files) back into the job."""
        by_file: dict[str, set[int]] = {}
        for file, row in rows:
            by_file.setdefault(file, set()).add(row)
        for file, numbers in by_file.items():
            known = self.files[file]
            self.files[file] = attrs.evolve(known, replayed=known.replayed | numbers)

    def count_recent(self, now: Timestamp) -> int:
        """Returns the number of units that went to quarantine in the last hour."""
        return sum(count for time, count in self.recent if time > now - _HOUR)


@attrs.frozen
class QuarantineSettings:
    """Rules by which failing units (elements, groups, timers) of a job go to quarantine files.

    Attributes:
        spec: store of the quarantine files, which several jobs can share.
        steps: names of the steps whose failing input may go to quarantine; empty means all steps.
        attempts: number of failures after which a unit goes to quarantine.
        limit: maximum number of units in the quarantine.
        per_hour: maximum number of units in an hour.
    """

    spec: StoreSpec
    steps: tuple[str, ...]
    attempts: int
    limit: int
    per_hour: int

    def make_quarantine_order(self, state: QuarantineState, now: Timestamp) -> IsolationOrder:
        """Returns the rules for a worker process, at processing time `now` (ms)."""
        left, in_hour = self.limit - state.count, self.per_hour - state.count_recent(now)
        name = QUARANTINE_LIMIT.name if left <= in_hour else QUARANTINE_PER_HOUR.name
        return IsolationOrder(self.attempts, self.steps, max(0, min(left, in_hour)), name)
