"""The errors of a job, grouped by type, step and line: of all its messages, also of those not kept any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import attrs
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import Importance, JobMessage

from beam_runner_jobservices.failures import Failure, failure_of
from beam_runner_jobservices.job_log import LogRecord
from beam_runner_jobservices.step_names import StepNames
from beam_runner_jobservices.texts import cut, seconds_of

_MOST_GROUPS = 200
_MOST_CHARACTERS = 320 << 10
"""Of all groups: an answer stays below what gRPC clients take, whatever characters these are."""
_LONGEST_MESSAGE = 64 << 10
_LONGEST_TRACE = 32 << 10
_LONGEST_TEXT = 4 << 10
_LONGEST_LINE = 300
_MOST_FRAMES = 60


@attrs.frozen
class FailureGroup:
    """Failures of the same type, step and place; times are wall-clock seconds.

    - `failure`: the latest of them.
    - `retried`: how many of them were of attempts that were followed by another.
    """

    failure: Failure
    count: int = 1
    first: float | None = None
    last: float | None = None
    retried: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """What failures of a group have in common: type, step, and the innermost line of the user's."""
        failure = self.failure
        frame = failure.users_frame or (failure.frames[-1] if failure.frames else None)
        place = (frame.file, frame.line) if frame else failure.text.partition("\n")[0][:200]
        return failure.type, failure.step, place

    @property
    def size(self) -> int:
        """About how many characters it takes."""
        failure = self.failure
        frames = sum(len(one.file) + len(one.function) + len(one.code) for one in failure.frames)
        return len(failure.text) + len(failure.trace) + len(failure.element) + frames


@attrs.frozen
class Errors:
    """The errors and warnings of a job so far.

    - `groups`: by type, step and line, the latest last; those seen longest ago are dropped beyond
      200, or some hundred thousand characters.
    - `dropped`: how many groups were.
    - `through`: the id of the last message that is in them.
    - `warnings`: how many warnings there were that tell of no failed attempt; `last_warning` is the latest.
    """

    groups: tuple[FailureGroup, ...] = ()
    dropped: int = 0
    through: int = 0
    warnings: int = 0
    last_warning: LogRecord | None = None


class ErrorLog:
    """Takes up messages once each, when somebody asks or they are about to be dropped. Thread-safe.

    `names` is asked for the steps of the pipeline as soon as there is an error; `errors` is what an
    earlier log had come to.
    """

    def __init__(self, names: Callable[[], StepNames], errors: Errors | None = None) -> None:
        errors = errors or Errors()
        self._find_names = names
        self._names: StepNames | None = None
        self._lock = threading.Lock()
        self._groups = {group.key: group for group in errors.groups}
        self._size = sum(group.size for group in errors.groups)
        self._errors = errors

    @property
    def errors(self) -> Errors:
        """Of the messages that were taken up."""
        return self._errors

    def take(self, messages: Iterable[JobMessage]) -> Errors:
        """Take up messages, oldest first; those that were before are skipped."""
        with self._lock:
            through, dropped = self._errors.through, self._errors.dropped
            warnings, last_warning = self._errors.warnings, self._errors.last_warning
            for message in messages:
                number = int(message.message_id)
                if number > through:
                    through = number
                    if is_error(message):
                        self._add(message)
                        dropped += self._drop()
                    elif message.importance is Importance.WARNING:
                        warnings, last_warning = warnings + 1, _warning(message)
            if through > self._errors.through:
                groups = tuple(self._groups.values())
                self._errors = Errors(groups, dropped, through, warnings, last_warning)
            return self._errors

    def _add(self, message: JobMessage) -> None:
        if self._names is None:
            self._names = self._find_names()
        group = group_of(message, self._names)
        known = self._groups.pop(group.key, None)
        if known is not None:
            self._size -= known.size
            group = _both(known, group)
        self._groups[group.key] = group
        self._size += group.size

    def _drop(self) -> int:
        """Drop those groups that were seen longest ago, beyond the limits; how many were."""
        count = 0
        while len(self._groups) > _MOST_GROUPS or (
            self._size > _MOST_CHARACTERS and len(self._groups) > 1
        ):
            oldest = next(iter(self._groups))
            self._size -= self._groups.pop(oldest).size
            count += 1
        return count


def is_error(message: JobMessage) -> bool:
    """Whether a message tells of something raised: also of an attempt that is followed by another."""
    record = message.record
    failed = isinstance(record, FailedBundle) and record.kind is not FailureCause.UNAVAILABLE
    return failed or message.importance >= Importance.ERROR


def group_of(message: JobMessage, names: StepNames) -> FailureGroup:
    """The group of one error message, shortened."""
    found = failure_of(cut(message.text, _LONGEST_MESSAGE), names, message.record)
    frames = (
        attrs.evolve(
            one,
            file=cut(one.file, _LONGEST_LINE),
            function=cut(one.function, _LONGEST_LINE),
            code=cut(one.code, _LONGEST_LINE),
        )
        for one in found.frames[-_MOST_FRAMES:]
    )
    failure = attrs.evolve(
        found,
        type=cut(found.type, _LONGEST_LINE),
        text=cut(found.text, _LONGEST_TEXT),
        frames=tuple(frames),
        trace=cut(found.trace, _LONGEST_TRACE),
        element=cut(found.element, _LONGEST_TEXT),
    )
    time = seconds_of(message.time)
    return FailureGroup(failure, 1, time, time, int(isinstance(message.record, FailedBundle)))


def errors_among(messages: Iterable[JobMessage], names: StepNames) -> Errors:
    """The errors and warnings among messages of any server, whatever their ids."""
    numbered = (attrs.evolve(one, message_id=str(at)) for at, one in enumerate(messages, 1))
    return ErrorLog(lambda: names).take(numbered)


def _warning(message: JobMessage) -> LogRecord:
    return LogRecord(
        int(message.message_id),
        seconds_of(message.time),
        message.importance.name,
        cut(message.transform, _LONGEST_LINE),
        message.worker,
        cut(message.line, _LONGEST_TEXT),
    )


def _both(known: FailureGroup, latest: FailureGroup) -> FailureGroup:
    return attrs.evolve(
        latest,
        count=known.count + latest.count,
        first=known.first,
        retried=known.retried + latest.retried,
    )
