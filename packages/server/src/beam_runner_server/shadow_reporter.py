"""Reporter of a program in a shadow run, without a job in the Job API."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_jobservices.ports import JobReporter
from beam_runner_model.jobs import Importance, JobState, MessageLine, MessageRecord
from beam_runner_model.successions import Succession


class ShadowReporter:
    """Reporter that records the end of a program, and passes messages on.

    Implements `JobReporter`.

    Args:
        receiver: the reporter that gets the messages; None to discard them.

    Attributes:
        end: the terminal state; None while the program runs, or if it was suspended.
        reason: the last error of a failed program.
    """

    def __init__(self, receiver: JobReporter | None) -> None:
        self._receiver = receiver
        self.end: JobState | None = None
        self.reason = ""

    def report_state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        if state.is_terminal:
            self.end, self.reason = state, reason or ""
        return True

    def report_message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        if self._receiver is not None:
            self._receiver.report_message(importance, text, transform, record)

    def record_succession(self, change: Succession) -> None:
        """Does nothing, because no job follows a shadow run."""

    def report_messages(self, lines: Iterable[MessageLine]) -> None:
        if self._receiver is not None:
            self._receiver.report_messages(lines)
