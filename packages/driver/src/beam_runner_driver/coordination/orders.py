"""Orders (messages to worker processes that start work). Each order contains the committed state
that the work needs.
"""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_runtime.channel.isolation import IsolationOrder
from beam_runner_runtime.channel.messages import JobWork, RunBundle, RunLoop
from beam_runner_runtime.clock import ProcessingClock

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.settings import JobSettings


@attrs.frozen
class WorkerOrderFactory:
    """Factory of the orders that tell worker processes of one job to run a bundle or the scheduler
    loop.
    """

    ledger: JobLedger
    clock: ProcessingClock
    settings: JobSettings

    def make_bundle_order(self, bundle: Bundle) -> RunBundle:
        """Returns the order for a worker process to run a bundle."""
        name = f"{self.settings.file_prefix}-{bundle.number}-{bundle.attempt}"
        isolation = self._make_isolation_order()
        if isolation is not None:
            isolation = isolation.copy_with_failures(self.ledger.get_failed_step(bundle))
        return RunBundle(bundle, name, self.ledger.list_state_segments(bundle), isolation)

    def make_loop_order(self, number: int) -> RunLoop:
        """Returns the order for a worker process to run the job's scheduler and its bundles (a loop
        inside a task), with this loop number.
        """
        return RunLoop(
            number,
            f"{self.settings.file_prefix}-loop{number}",
            self.ledger.pickle_scheduler(),
            self.ledger.list_all_state_segments(),
            self._make_isolation_order(),
        )

    def _make_isolation_order(self) -> IsolationOrder | None:
        rules, state = self.settings.quarantine, self.ledger.quarantine
        return (
            None
            if rules is None
            else rules.make_quarantine_order(state, self.ledger.processing_time)
        )

    def make_job_work(self) -> JobWork:
        """Returns the plan and settings that a worker process needs for the job."""
        return self.settings.make_job_work(self.ledger.plan, self.ledger.shards, self.clock.now())
