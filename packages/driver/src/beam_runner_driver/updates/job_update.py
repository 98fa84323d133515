"""Update of a running job: the request of the new job, and the answer of the running job."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from concurrent.futures import Future

import attrs
from beam_runner_model.updates import UpdateReport
from beam_runner_storage.journal.journal import Journal

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.updates.succession import SuccessorJob


class UpdateOutcome(enum.Enum):
    """Outcome of an update."""

    CHECKED = "checked"
    """The user requested only a comparison of the jobs."""
    REFUSED = "refused"
    """The running job can't be replaced, and continues."""
    INTERRUPTED = "interrupted"
    """The update was given up, because the running job ended or the client cancelled the new job."""
    REPLACED = "replaced"
    UNKNOWN = "unknown"
    """The server can't determine whether the update is committed. The next server finds out, and
    continues the old or the new job.
    """


@attrs.frozen
class UpdateResult:
    """Result of an update request.

    Attributes:
        outcome: outcome of the update.
        report: differences between the jobs that the latest comparison found.
        reason: reason for the outcome, if the report doesn't contain the reason; otherwise empty.
        ledger: committed state of the new job, if the new job replaces the running job.
    """

    outcome: UpdateOutcome
    report: UpdateReport = attrs.field(factory=UpdateReport)
    reason: str = ""
    ledger: JobLedger | None = None


@attrs.frozen(eq=False)
class JobUpdate:
    """Request by a new job to replace a running job. Thread-safe.

    Attributes:
        job_id: ID of the new job.
        job: plan and settings of the new job.
        journal: journal of the new job, which must not exist.
        quiet_seconds: maximum time for which the running job finishes its open bundles.
        is_check: whether only the report is requested.
        on_report: callback, on the running job's thread, with each new report.
        on_replaced: callback, on the running job's thread, with the last report, before the running
            job is UPDATED.
        answer: result, which the running job sets.
        withdrawn: event that is set if the client cancels the new job.
    """

    job_id: str
    job: SuccessorJob
    journal: Journal
    quiet_seconds: float
    is_check: bool
    on_report: Callable[[UpdateReport], None]
    on_replaced: Callable[[UpdateReport], None]
    answer: Future[UpdateResult] = attrs.field(init=False, factory=Future)
    withdrawn: threading.Event = attrs.field(init=False, factory=threading.Event)
