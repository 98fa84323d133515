"""Records and messages about failed bundles and unavailable external systems."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_engine.scheduler.reports import RetryReport
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import Importance, MessageLine
from beam_runner_model.rendering import render_record
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.attempts import FailedStep, LostProcess
from beam_runner_runtime.sections.plan import list_stage_ids

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import QuarantineState
from beam_runner_driver.ledger.retrying_journal import Outage
from beam_runner_driver.reports.waiting import make_external_system_wait

MOST_MESSAGES = 20
"""Maximum number of messages per check. Many bundles can fail at the same time for the same reason."""
_MOST_RECORDS = 50
_CAUSES = {
    FailureKind.USER: FailureCause.USER_CODE,
    FailureKind.OUTSIDE: FailureCause.OUTSIDE,
    FailureKind.UNAVAILABLE: FailureCause.UNAVAILABLE,
    FailureKind.PERMANENT: FailureCause.PERMANENT,
}


class FailureMessages:
    """Producer of messages about failed bundles, one for each failure."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._told: set[tuple[int, int]] = set()

    def list_new_messages(self, ledger: JobLedger, now: int, *, skips: bool) -> list[MessageLine]:
        """Returns messages for the failures since the last check.

        Args:
            now: processing time (ms).
            skips: whether to skip all failures up to now, because an earlier server reported them.
        """
        retries = {retry.bundle.number: retry for retry in ledger.list_retried_bundles()}
        failures = [retry.last for retry in retries.values()]
        last = ledger.last_failure
        if last is not None and last.bundle not in retries:
            failures.append(last)
        before, self._told = self._told, {(one.bundle, one.attempt) for one in failures}
        new = [one for one in failures if not skips and (one.bundle, one.attempt) not in before]
        lines = [
            self._describe_failure(one, retries.get(one.bundle), now) for one in new[:MOST_MESSAGES]
        ]
        if len(new) > MOST_MESSAGES:
            text = f"{len(new) - MOST_MESSAGES} more bundles failed at the same time"
            lines.append(MessageLine(Importance.WARNING, text))
        return lines

    def _describe_failure(
        self, last: BundleFailed, retry: RetryReport | None, now: int
    ) -> MessageLine:
        if retry is None:
            record = describe_failure(last, attempts=last.attempt)
        else:
            record = describe_failed_bundle(retry, self._plan, now)
        # Omit the element here: the full cause contains the element and the traceback.
        text = render_record(attrs.evolve(record, error=last.cause, element=""))
        return MessageLine(Importance.WARNING, text, record=record)


class OutageMessages:
    """Producer of messages about unavailable external systems, one when worker processes start to
    wait and one after the wait.
    """

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def list_new_messages(self, outages: Iterable[Outage], now: float) -> list[str]:
        """Returns messages for the changes since the last check, at time `now` (``time.monotonic``)."""
        away = {one.away.neighbour: one for one in outages}
        over = [name for name in self._told if name not in away]
        new = [name for name in away if name not in self._told]
        texts = [render_record(make_external_system_wait(away[name], 0)) for name in new]
        texts += [
            f"the job no longer waits for {name}, after {now - self._told[name]:.0f} s"
            for name in over
        ]
        self._told = {name: one.since for name, one in away.items()}
        return texts


class QuarantineMessages:
    """Producer of messages about elements, groups and timers that went to quarantine since the last check."""

    def __init__(self) -> None:
        self._told = 0

    def list_new_messages(self, state: QuarantineState, *, skips: bool) -> list[MessageLine]:
        """Returns messages about the elements, groups and timers that went to quarantine since the
        last call.

        Args:
            skips: whether to skip all units up to now, because an earlier server reported them.
        """
        new, self._told = state.count - self._told, state.count
        last = state.last
        if skips or not new or last is None:
            return []
        what = f"the {last.kind.value} of the step {last.step!r} is in quarantine: {last.error}"
        if new > 1:
            what = f"{new} elements are in quarantine; the last one of the step {last.step!r}: {last.error}"
        return [MessageLine(Importance.WARNING, f"{what}; {state.count} in total", last.step)]


def describe_failed_bundles(ledger: JobLedger, plan: JobPlan, now: int) -> tuple[FailedBundle, ...]:
    """Returns the records of failed bundles at processing time `now` (ms), most attempts first."""
    retries = sorted(ledger.list_retried_bundles(), key=lambda retry: -retry.attempts)
    return tuple(describe_failed_bundle(retry, plan, now) for retry in retries[:_MOST_RECORDS])


def describe_failed_bundle(retry: RetryReport, plan: JobPlan, now: int) -> FailedBundle:
    """Returns the record of a retried bundle at processing time `now` (ms)."""
    since = retry.outage_since
    names = (plan.stages[stage].spec.name for stage in list_stage_ids(retry.bundle))
    return attrs.evolve(
        describe_failure(retry.last, attempts=retry.attempts),
        stage=retry.bundle.stage,
        steps=tuple(step for name in names for step in name.split(" + ")),
        away=0.0 if since is None else max(0, now - since) / 1000,
        next_in=None if retry.due is None else max(0, retry.due - now) / 1000,
    )


def describe_failure(last: BundleFailed, *, attempts: int, stage: str = "") -> FailedBundle:
    """Returns the record of a bundle's latest failure, without data about the next attempt."""
    detail = last.detail
    step = detail if isinstance(detail, FailedStep) else None
    process = detail if isinstance(detail, LostProcess) else LostProcess()
    return FailedBundle(
        stage=stage,
        bundle=last.bundle,
        attempts=attempts,
        kind=FailureCause.LOST_PROCESS if detail is process else _CAUSES[last.kind],
        step="" if step is None else step.transform,
        error=last.cause.partition("\n")[0] if step is None else step.summary,
        element="" if step is None else step.element,
        neighbour=last.neighbour,
        host=process.host,
        pid=process.pid,
        end=process.end,
    )
