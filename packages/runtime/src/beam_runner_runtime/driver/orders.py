"""The orders that a job's worker processes get: what to run, with the state that is committed by then."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle

from beam_runner_runtime.channel.messages import JobWork, RunBundle, RunLoop
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.driver.ledger import Ledger
from beam_runner_runtime.driver.settings import JobSettings


@attrs.frozen
class Orders:
    """Makes the orders of one job.

    Attributes:
        ledger: what is committed.
        clock: the job's processing time.
        settings: what the job is run with.
    """

    ledger: Ledger
    clock: ProcessingClock
    settings: JobSettings

    def bundle(self, bundle: Bundle) -> RunBundle:
        """Returns the order to run a bundle."""
        name = f"{self.settings.epoch}-{bundle.number}-{bundle.attempt}"
        return RunBundle(bundle, name, self.ledger.segments(bundle))

    def loop(self, number: int) -> RunLoop:
        """Returns the order to run the loop with this number."""
        return RunLoop(
            number,
            f"{self.settings.epoch}-loop{number}",
            self.ledger.scheduler_snapshot(),
            self.ledger.all_segments(),
        )

    def work(self) -> JobWork:
        """Returns all that a process must know of the job."""
        return self.settings.work(self.ledger.plan, self.ledger.shards, self.clock.now())
