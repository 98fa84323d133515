"""Orders to worker processes: each order contains the state that is committed when the order is made."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle

from beam_runner_runtime.channel.messages import JobWork, RunBundle, RunLoop
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.driver.ledger import JobLedger
from beam_runner_runtime.driver.settings import JobSettings


@attrs.frozen
class OrderFactory:
    """Factory of the orders for worker processes of one job.

    Attributes:
        ledger: committed state of the job.
        clock: processing time of the job.
        settings: settings of the job.
    """

    ledger: JobLedger
    clock: ProcessingClock
    settings: JobSettings

    def make_bundle_order(self, bundle: Bundle) -> RunBundle:
        """Returns the order for a worker process to run a bundle."""
        name = f"{self.settings.epoch}-{bundle.number}-{bundle.attempt}"
        return RunBundle(bundle, name, self.ledger.list_segments(bundle))

    def make_loop_order(self, number: int) -> RunLoop:
        """Returns the order for a worker process to run the scheduler loop with this number."""
        return RunLoop(
            number,
            f"{self.settings.epoch}-loop{number}",
            self.ledger.pickle_scheduler(),
            self.ledger.list_all_segments(),
        )

    def make_job_work(self) -> JobWork:
        """Returns the plan and settings that a worker process needs for the job."""
        return self.settings.make_job_work(self.ledger.plan, self.ledger.shards, self.clock.now())
