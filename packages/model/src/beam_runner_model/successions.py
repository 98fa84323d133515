"""Records of the jobs that replace each other by updates and rollbacks."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from beam_runner_model.shadows import ShadowReport
from beam_runner_model.updates import UpdateReport


@attrs.frozen
class Succession:
    """Relation of a job to the job that it replaced and to the job that replaced it, and the latest
    comparison with another job.

    Attributes:
        predecessor: the ID of the job that this job replaced; empty if none.
        successor: the ID of the job that replaced this job; empty if none.
        compared: the ID of the other job of the latest comparison; empty without a comparison.
        report: the findings of the latest comparison.
        program_kept_until: the time until which the server retains the program of this job after its
            replacement, so that a rollback can start it again (seconds since 1970); 0 if the server
            doesn't retain the program.
        shadow: the latest shadow run with the job `compared`, if one exists.
    """

    predecessor: str = ""
    successor: str = ""
    compared: str = ""
    report: UpdateReport = attrs.field(factory=UpdateReport)
    program_kept_until: float = 0.0
    shadow: ShadowReport = attrs.field(factory=ShadowReport)

    def merge(self, change: Succession) -> Succession:
        """Returns this record with the values that `change` sets."""
        compared = change if change.compared else self
        is_same = compared.compared == self.compared and not change.shadow.exists
        return Succession(
            change.predecessor or self.predecessor,
            change.successor or self.successor,
            compared.compared,
            compared.report,
            change.program_kept_until or self.program_kept_until,
            self.shadow if is_same else change.shadow,
        )


@attrs.frozen
class RollbackRequest:
    """Request to replace a running job by the program of the job that the running job replaced (a
    rollback).

    Attributes:
        mapping: new names of steps, by their names in the running job; empty for the reverse of the
            mapping of the update.
        drop: the steps, states and timers whose data the rollback may drop, and the sources that
            the rollback may start again.
        trust: the steps and states whose coders the user considers to be compatible.
        quiet: the longest time in which the running job finishes its open bundles, such as 10s; empty
            for the default.
        is_check: whether only the report is requested.
    """

    mapping: Mapping[str, str] = attrs.field(factory=dict)
    drop: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    quiet: str = ""
    is_check: bool = False
