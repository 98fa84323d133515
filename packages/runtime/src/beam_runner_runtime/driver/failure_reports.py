"""Failed bundles and absent neighbours, for people: messages of the job, and records for its page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from beam_runner_engine.scheduler import Bundle, BundleFailed, FailureKind, Retry
from beam_runner_model.observation import (
    OUTSIDE,
    UNAVAILABLE,
    USER_CODE,
    AwaitedNeighbour,
    FailedBundle,
)
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.attempts import FailedStep
from beam_runner_runtime.driver.ledger import Ledger, stages_of
from beam_runner_runtime.driver.patient_journal import Outage

MOST_MESSAGES = 20
"""Of one look at a job: many bundles may fail at a time, and for the same reason."""
_MOST_RECORDS = 50
_KINDS = {FailureKind.USER: USER_CODE, FailureKind.UNAVAILABLE: UNAVAILABLE}


class FailureMessages:
    """Makes a message for each failure once.

    Args:
        plan: the job's.
    """

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._told: set[tuple[int, int]] = set()

    def look(self, ledger: Ledger, now: int, *, skips: bool) -> list[str]:
        """Returns messages for the failures since the last look, at processing time `now` (ms).

        Args:
            ledger: what is committed.
            now: the processing time.
            skips: whether an earlier server has told of all failures that are known by now.
        """
        retries = {retry.bundle.number: retry for retry in ledger.retries()}
        failures = [retry.last for retry in retries.values()]
        last = ledger.last_failure
        if last is not None and last.bundle not in retries:
            failures.append(last)
        before, self._told = self._told, {(one.bundle, one.attempt) for one in failures}
        new = [one for one in failures if not skips and (one.bundle, one.attempt) not in before]
        texts = [self._text(one, retries.get(one.bundle), now) for one in new[:MOST_MESSAGES]]
        if len(new) > MOST_MESSAGES:
            texts.append(f"{len(new) - MOST_MESSAGES} more bundles failed at the same time")
        return texts

    def _text(self, last: BundleFailed, retry: Retry | None, now: int) -> str:
        where = "" if retry is None else f" of '{title_of(retry.bundle, self._plan)}'"
        due = None if retry is None else retry.due
        pause = "" if due is None else f" in {_seconds(due - now)} s"
        if last.kind is FailureKind.UNAVAILABLE:
            return (
                f"a bundle{where} waits for a neighbour, and is tried again{pause}, which counts as no"
                f" attempt: {last.cause}"
            )
        number = last.attempt if retry is None else retry.attempts
        return f"attempt {number} at a bundle{where} failed, and it is tried again{pause}: {last.cause}"


class OutageMessages:
    """Makes a message when worker processes begin to wait for a neighbour, and one when the wait is over."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def look(self, outages: Iterable[Outage], now: float) -> list[str]:
        """Returns messages for what has changed since the last look, at `now` (``time.monotonic``)."""
        away = {one.away.neighbour: one for one in outages}
        over = [name for name in self._told if name not in away]
        new = [name for name in away if name not in self._told]
        texts = [f"worker processes wait for a neighbour: {away[n].away}" for n in new]
        texts += [
            f"worker processes wait no longer for {name}, after {now - self._told[name]:.0f} s"
            for name in over
        ]
        self._told = {name: one.since for name, one in away.items()}
        return texts


def waits_for_retries(retries: Iterable[Retry], plan: JobPlan, now: int) -> Iterator[str]:
    """Yields a sentence for each bundle that waits for its next attempt, at processing time `now` (ms)."""
    for retry in retries:
        if retry.due is None:
            continue
        title, pause = title_of(retry.bundle, plan), _seconds(retry.due - now)
        if retry.last.kind is FailureKind.UNAVAILABLE:
            yield f"'{title}' waits for {retry.last.neighbour}, and tries again in {pause} s"
        else:
            times = "once" if retry.attempts == 1 else f"{retry.attempts} times"
            yield f"'{title}' waits {pause} s for another attempt at a bundle that failed {times}"


def failed_bundles(ledger: Ledger, plan: JobPlan, now: int) -> tuple[FailedBundle, ...]:
    """Returns the records of failed bundles at processing time `now` (ms), those first that failed most often."""
    retries = sorted(ledger.retries(), key=lambda retry: -retry.attempts)
    return tuple(_record(retry, plan, now) for retry in retries[:_MOST_RECORDS])


def awaited_neighbours(outages: Iterable[Outage | None]) -> tuple[AwaitedNeighbour, ...]:
    """Returns the records of what the whole job waits for."""
    now = time.monotonic()
    return tuple(
        AwaitedNeighbour(
            one.away.neighbour,
            one.away.reason,
            round(now - one.since, 1),
            round(max(0.0, one.next_try - now), 1),
        )
        for one in outages
        if one is not None
    )


def outage_text(outage: Outage) -> str:
    """Returns the message about something that the whole job waits for."""
    pause = max(0.0, outage.next_try - time.monotonic())
    return f"the job waits: {outage.away}; the next try is in {pause:.0f} s"


def title_of(bundle: Bundle, plan: JobPlan) -> str:
    """Returns the name of a bundle's stage, or of the first and last stage of a section."""
    titles = [plan.stages[stage].spec.title for stage in stages_of(bundle)]
    return titles[0] if len(titles) == 1 else f"section of {titles[0]} to {titles[-1]}"


def _record(retry: Retry, plan: JobPlan, now: int) -> FailedBundle:
    last, since = retry.last, retry.outage_since
    detail = last.detail if isinstance(last.detail, FailedStep) else None
    names = (plan.stages[stage].spec.name for stage in stages_of(retry.bundle))
    return FailedBundle(
        stage=retry.bundle.stage,
        bundle=retry.bundle.number,
        steps=tuple(step for name in names for step in name.split(" + ")),
        attempts=retry.attempts,
        kind=_KINDS.get(last.kind, OUTSIDE),
        step="" if detail is None else detail.transform,
        error=last.cause.partition("\n")[0] if detail is None else detail.summary,
        element="" if detail is None else detail.element,
        neighbour=last.neighbour,
        away=0.0 if since is None else max(0, now - since) / 1000,
        next_in=None if retry.due is None else max(0, retry.due - now) / 1000,
    )


def _seconds(milliseconds: int) -> int:
    """Returns whole seconds, at least 1."""
    return max(1, round(milliseconds / 1000))
