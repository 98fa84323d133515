"""History of one job: states and messages in order, which many clients can read at different
speeds.

Writers never wait for readers. The history keeps all states. If the messages exceed the limits, the
history drops the oldest messages. A slow reader then receives the number of missed messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from beam_runner_model.jobs import Importance, JobMessage, JobState, MessageRecord, StateEvent

from beam_runner_jobservices.error_log import ErrorLog, JobErrors
from beam_runner_jobservices.job_log import LogAnswer, LogQuery, select_logs
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.step_names import StepNames
from beam_runner_jobservices.texts import format_iso_time, truncate_middle

Entry = StateEvent | JobMessage
_BATCH = 256
_LINE = 500


def find_last_error(entries: Sequence[Entry]) -> str:
    """Returns the first line of the latest error message among entries; empty if no error exists."""
    for entry in reversed(entries):
        if isinstance(entry, JobMessage) and entry.importance is Importance.ERROR:
            return entry.text.partition("\n")[0][:_LINE]
    return ""


class JobHistory:
    """States and messages of one job. Thread-safe.

    Entries have numbers from 0 in the order in which they were added. The number of an entry never
    changes.

    Args:
        entries: the initial entries: at least one state, and messages of an earlier history. The
            ids of new messages continue the ids of these messages.
        errors: the errors of messages that were dropped.
    """

    def __init__(
        self,
        limits: ServerLimits,
        entries: Sequence[Entry],
        errors: ErrorLog | None = None,
    ) -> None:
        self._limits = limits
        self._errors = errors or ErrorLog(lambda: StepNames({}))
        self._changed = threading.Condition()
        self._states = [entry for entry in entries if isinstance(entry, StateEvent)]
        messages = [entry for entry in entries if isinstance(entry, JobMessage)]
        self._first_message_id = int(messages[0].message_id) if messages else 1
        self._next_message_id = int(messages[-1].message_id) + 1 if messages else 1
        self._messages = len(messages)
        self._chars = sum(len(message.text) for message in messages)
        # If messages were dropped, this list contains the states before the first remaining message.
        before = entries.index(messages[0]) if self._first_message_id > 1 else 0
        self._dropped_states = list(enumerate(self._states[:before]))
        self._dropped = before + self._first_message_id - 1
        self._kept: list[Entry] = list(entries[before:])

    @property
    def current(self) -> StateEvent:
        """The latest state."""
        return self._states[-1]

    def list_entries(self) -> tuple[Entry, ...]:
        """Returns the stored entries, oldest first."""
        with self._changed:
            return (*(event for _, event in self._dropped_states), *self._kept)

    def list_states(self) -> tuple[StateEvent, ...]:
        """Returns all states so far, oldest first."""
        with self._changed:
            return tuple(self._states)

    def find_last_error(self) -> str:
        """Returns the first line of the latest stored error message; empty if no error is stored."""
        with self._changed:
            return find_last_error(self._kept)

    def add_state(self, state: JobState, time: float) -> None:
        """Appends a state. The caller must have checked that the state may follow the current one."""
        event = StateEvent(state, time)
        with self._changed:
            self._states.append(event)
            self._kept.append(event)
            self._changed.notify_all()

    @property
    def first_message_id(self) -> int:
        """The id of the oldest stored message, or of the next message if none is stored."""
        return self._first_message_id

    def create_message(
        self,
        importance: Importance,
        text: str,
        time: float,
        transform: str = "",
        worker: str = "",
        record: MessageRecord = None,
    ) -> JobMessage:
        """Returns a message with the next id, truncated to the limit, for `add_messages`."""
        text = truncate_middle(
            f"[{transform}] {text}" if transform else text, self._limits.text_chars
        )
        # Use the transform's name in the same form as in the text.
        transform = truncate_middle(transform, self._limits.text_chars)
        with self._changed:
            message_id = str(self._next_message_id)
            message = JobMessage(
                message_id, format_iso_time(time), importance, text, transform, worker, record
            )
            self._next_message_id += 1
        return message

    def add_messages(self, messages: Sequence[JobMessage]) -> None:
        """Appends new messages, and drops the oldest messages beyond the limits."""
        with self._changed:
            self._kept.extend(messages)
            self._messages += len(messages)
            self._chars += sum(len(message.text) for message in messages)
            if self._messages > self._limits.messages or self._chars > self._limits.message_chars:
                self._drop_oldest_messages()
            self._changed.notify_all()

    def _drop_oldest_messages(self) -> None:
        """Drops the oldest messages until the rest is a tenth below the limits, so that the average
        cost per message is constant.
        """
        most = self._limits.messages - self._limits.messages // 10
        most_chars = self._limits.message_chars - self._limits.message_chars // 10
        count = 0
        while self._messages > max(most, 1) or (self._chars > most_chars and self._messages > 1):
            entry = self._kept[count]
            if isinstance(entry, StateEvent):
                self._dropped_states.append((self._dropped + count, entry))
            else:
                self._messages -= 1
                self._chars -= len(entry.text)
                self._first_message_id = int(entry.message_id) + 1
            count += 1
        self._errors.read_messages(one for one in self._kept[:count] if isinstance(one, JobMessage))
        del self._kept[:count]
        self._dropped += count

    def collect_errors(self) -> JobErrors:
        """Returns the errors so far, including those of dropped messages."""
        return self._errors.read_messages(
            one for one in self.list_entries() if isinstance(one, JobMessage)
        )

    def query_logs(self, query: LogQuery) -> LogAnswer:
        """Returns a part of the stored messages."""
        messages = [one for one in self.list_entries() if isinstance(one, JobMessage)]
        dropped = int(messages[0].message_id) - 1 if messages else 0
        return select_logs(messages, query, dropped)

    @property
    def early_errors(self) -> JobErrors:
        """Returns the errors of all dropped messages, and of some stored messages."""
        return self._errors.errors

    def read_batch(self, position: int) -> tuple[list[Entry], int]:
        """Returns a batch of entries from number `position` on, and the number at which to continue.

        If entries were dropped, the batch contains their states, and one message with the number of
        dropped messages.
        """
        with self._changed:
            batch: list[Entry] = []
            if position < self._dropped:
                states = [event for number, event in self._dropped_states if number >= position]
                missed = self._dropped - position - len(states)
                batch.extend(states)
                if missed:
                    batch.append(self._make_gap_message(missed))
                position = self._dropped
            start = position - self._dropped
            batch.extend(self._kept[start : start + _BATCH])
            return batch, min(position + _BATCH, self._next_position)

    def _make_gap_message(self, missed: int) -> JobMessage:
        following = self._kept[0]
        time = (
            following.time if isinstance(following, JobMessage) else format_iso_time(following.time)
        )
        return JobMessage(
            "0", time, Importance.WARNING, f"({missed} earlier messages were discarded)"
        )

    def follow_entries(self, gone: Callable[[], bool]) -> Iterator[Entry]:
        """Yields all entries from the start, and new entries as they arrive, up to the terminal state.

        The iteration ends early if `gone()` is true when `wake_waiting_readers` is called.
        """
        position = 0
        while not gone():
            batch, position = self.read_batch(position)
            for entry in batch:
                yield entry
                if isinstance(entry, StateEvent) and entry.state.is_terminal:
                    return
            self._wait_for_entries(lambda: self._next_position, position, gone)

    def follow_states(self, gone: Callable[[], bool]) -> Iterator[StateEvent]:
        """Yields the current state and every later one, up to the terminal state, or until `gone()` is true."""
        with self._changed:
            position = len(self._states) - 1
        while not gone():
            self._wait_for_entries(lambda: len(self._states), position, gone)
            events = self.list_states()[position:]
            for event in events:
                yield event
                if event.state.is_terminal:
                    return
            position += len(events)

    def _wait_for_entries(
        self, end: Callable[[], int], position: int, gone: Callable[[], bool]
    ) -> None:
        with self._changed:
            self._changed.wait_for(lambda: end() > position or gone())

    def wait_until_ended(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds for the terminal state. Returns whether the job has
        reached this state.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self.current.state.is_terminal, timeout)

    def wake_waiting_readers(self) -> None:
        """Wakes all waiting readers, so that each reader checks whether its client has
        disconnected.
        """
        with self._changed:
            self._changed.notify_all()

    @property
    def _next_position(self) -> int:
        return self._dropped + len(self._kept)
