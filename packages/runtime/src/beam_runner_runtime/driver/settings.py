"""What a job is run with, all its life."""

from __future__ import annotations

from pathlib import Path

import attrs
from beam_runner_planner.plan import JobPlan
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_runtime.channel.messages import JobWork
from beam_runner_runtime.driver.job_data import JobData, SharedJobData, StoredJobData
from beam_runner_runtime.tuning import TUNING


@attrs.frozen
class JobSettings:
    """What a job is run with.

    Attributes:
        folder: the job's own: with a store it has nothing but what is the server's.
        epoch: of the server.
        cores: how many bundles can use a core at once.
        most_lanes: how many bundles may run at once, blocked ones included.
        loop_bytes: the loop inside a task is for bundles whose inputs are together no larger.
        resumable: another server can go on with the job if this one can't.
        hides_elements: errors must not show the element that was processed.
        durable: what is committed survives the machine, not only this server.
        store: where the job's files lie; None if that is the folder, which all executors can read and write.
        data: the job's files, as the server sees them.
        checks_watermarks: whether the job fails where a watermark overtakes data.
        keep_seconds: how long the state of a stream that failed or was cancelled is kept; 0 keeps none.
    """

    folder: Path
    epoch: int
    cores: int
    most_lanes: int
    loop_bytes: int = TUNING.loop_bytes
    resumable: bool = False
    hides_elements: bool = False
    durable: bool = False
    store: StoreSpec | None = None
    data: JobData = attrs.field(
        default=attrs.Factory(lambda self: _data_of(self.folder, self.store), takes_self=True)
    )
    checks_watermarks: bool = False
    keep_seconds: float = 0.0

    def work(self, plan: JobPlan, shards: int, now: int) -> JobWork:
        """All that a worker process must know of the job, at this processing time (ms)."""
        return JobWork(
            plan,
            shards,
            str(self.folder),
            hides_elements=self.hides_elements,
            now=now,
            durable=self.durable,
            store=self.store,
            checks_watermarks=self.checks_watermarks,
        )


def _data_of(folder: Path, store: StoreSpec | None) -> JobData:
    return SharedJobData(folder) if store is None else StoredJobData(store.open())
