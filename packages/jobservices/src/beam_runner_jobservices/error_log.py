"""The errors of a job, grouped by type, step and line, from all of its messages, including dropped ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import attrs
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import Importance, JobMessage

from beam_runner_jobservices.failures import ExceptionReport, parse_error_message
from beam_runner_jobservices.job_log import JobLogLine
from beam_runner_jobservices.step_names import StepNames
from beam_runner_jobservices.texts import parse_iso_time, truncate_middle

_MOST_GROUPS = 200
_MOST_CHARACTERS = 320 << 10
"""The maximum number of characters of all groups. With this limit, an answer stays below the message
limit of gRPC clients.
"""
_LONGEST_MESSAGE = 64 << 10
_LONGEST_TRACE = 32 << 10
_LONGEST_TEXT = 4 << 10
_LONGEST_LINE = 300
_MOST_FRAMES = 60


@attrs.frozen
class FailureGroup:
    """Failures of the same type, step and place; times are wall-clock seconds.

    Attributes:
        failure: the latest failure.
        retried: the number of failures that were followed by another attempt.
    """

    failure: ExceptionReport
    count: int = 1
    first: float | None = None
    last: float | None = None
    retried: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """The common key of the group's failures: type, step, and the innermost line of user code."""
        failure = self.failure
        frame = failure.innermost_user_frame or (failure.frames[-1] if failure.frames else None)
        place = (frame.file, frame.line) if frame else failure.text.partition("\n")[0][:200]
        return failure.type, failure.step, place

    @property
    def size(self) -> int:
        """The approximate number of characters of the group."""
        failure = self.failure
        frames = sum(len(one.file) + len(one.function) + len(one.code) for one in failure.frames)
        return len(failure.text) + len(failure.trace) + len(failure.element) + frames


@attrs.frozen
class JobErrors:
    """The errors and warnings of a job so far.

    Attributes:
        groups: the groups by type, step and line, the latest last. Beyond 200 groups or the limit
            of characters, the server drops the groups that it saw longest ago.
        dropped: the number of dropped groups.
        through: the id of the last message that the groups include.
        warnings: the number of warnings that don't report a failed attempt.
        last_warning: the latest of these warnings.
    """

    groups: tuple[FailureGroup, ...] = ()
    dropped: int = 0
    through: int = 0
    warnings: int = 0
    last_warning: JobLogLine | None = None


class ErrorLog:
    """Collector that reads each message once, on request or before the message is dropped.
    Thread-safe.

    Args:
        names: returns the steps of the pipeline; called when the first error arrives.
        errors: the result of an earlier collector.
    """

    def __init__(self, names: Callable[[], StepNames], errors: JobErrors | None = None) -> None:
        errors = errors or JobErrors()
        self._find_names = names
        self._names: StepNames | None = None
        self._lock = threading.Lock()
        self._groups = {group.key: group for group in errors.groups}
        self._size = sum(group.size for group in errors.groups)
        self._errors = errors

    @property
    def errors(self) -> JobErrors:
        """All errors of the job's messages so far, in groups."""
        return self._errors

    def read_messages(self, messages: Iterable[JobMessage]) -> JobErrors:
        """Adds the errors and warnings of messages, oldest first. Skips messages that an earlier call has read."""
        with self._lock:
            through, dropped = self._errors.through, self._errors.dropped
            warnings, last_warning = self._errors.warnings, self._errors.last_warning
            for message in messages:
                number = int(message.message_id)
                if number > through:
                    through = number
                    if has_exception(message):
                        self._add_to_group(message)
                        dropped += self._drop_oldest_groups()
                    elif message.importance is Importance.WARNING:
                        warnings, last_warning = warnings + 1, _make_log_line(message)
            if through > self._errors.through:
                groups = tuple(self._groups.values())
                self._errors = JobErrors(groups, dropped, through, warnings, last_warning)
            return self._errors

    def _add_to_group(self, message: JobMessage) -> None:
        if self._names is None:
            self._names = self._find_names()
        group = make_failure_group(message, self._names)
        known = self._groups.pop(group.key, None)
        if known is not None:
            self._size -= known.size
            group = _merge_groups(known, group)
        self._groups[group.key] = group
        self._size += group.size

    def _drop_oldest_groups(self) -> int:
        """Drops the groups with the oldest last errors until the groups fit the limits; returns the number of dropped groups."""
        count = 0
        while len(self._groups) > _MOST_GROUPS or (
            self._size > _MOST_CHARACTERS and len(self._groups) > 1
        ):
            oldest = next(iter(self._groups))
            self._size -= self._groups.pop(oldest).size
            count += 1
        return count


def has_exception(message: JobMessage) -> bool:
    """Returns whether a message reports an exception, even if another attempt followed."""
    record = message.record
    failed = isinstance(record, FailedBundle) and record.kind is not FailureCause.UNAVAILABLE
    return failed or message.importance >= Importance.ERROR


def make_failure_group(message: JobMessage, names: StepNames) -> FailureGroup:
    """Returns the group of one error message, shortened."""
    found = parse_error_message(
        truncate_middle(message.text, _LONGEST_MESSAGE), names, message.record
    )
    frames = (
        attrs.evolve(
            one,
            file=truncate_middle(one.file, _LONGEST_LINE),
            function=truncate_middle(one.function, _LONGEST_LINE),
            code=truncate_middle(one.code, _LONGEST_LINE),
        )
        for one in found.frames[-_MOST_FRAMES:]
    )
    failure = attrs.evolve(
        found,
        type=truncate_middle(found.type, _LONGEST_LINE),
        text=truncate_middle(found.text, _LONGEST_TEXT),
        frames=tuple(frames),
        trace=truncate_middle(found.trace, _LONGEST_TRACE),
        element=truncate_middle(found.element, _LONGEST_TEXT),
    )
    time = parse_iso_time(message.time)
    return FailureGroup(failure, 1, time, time, int(isinstance(message.record, FailedBundle)))


def collect_errors(messages: Iterable[JobMessage], names: StepNames) -> JobErrors:
    """Returns the errors and warnings among the messages of any server, whatever their ids."""
    numbered = (attrs.evolve(one, message_id=str(at)) for at, one in enumerate(messages, 1))
    return ErrorLog(lambda: names).read_messages(numbered)


def _make_log_line(message: JobMessage) -> JobLogLine:
    return JobLogLine(
        int(message.message_id),
        parse_iso_time(message.time),
        message.importance.name,
        truncate_middle(message.transform, _LONGEST_LINE),
        message.worker,
        truncate_middle(message.line, _LONGEST_TEXT),
    )


def _merge_groups(known: FailureGroup, latest: FailureGroup) -> FailureGroup:
    return attrs.evolve(
        latest,
        count=known.count + latest.count,
        first=known.first,
        retried=known.retried + latest.retried,
    )
