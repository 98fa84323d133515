"""What happened to a job, in order, kept for any number of readers at any speed.

Writers never wait for readers. States are all kept; of the messages the oldest are dropped beyond
the limits, and a reader who has missed some is told how many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from beam_runner_model.jobs import Importance, JobMessage, JobState, MessageRecord, StateEvent

from beam_runner_jobservices.error_log import ErrorLog, Errors
from beam_runner_jobservices.job_log import LogQuery, Logs, select_logs
from beam_runner_jobservices.limits import Limits
from beam_runner_jobservices.step_names import StepNames
from beam_runner_jobservices.texts import cut, iso_time

Entry = StateEvent | JobMessage
_BATCH = 256
_LINE = 500


def last_error(entries: Sequence[Entry]) -> str:
    """The first line of the latest error message among entries; empty if there is none."""
    for entry in reversed(entries):
        if isinstance(entry, JobMessage) and entry.importance is Importance.ERROR:
            return entry.text.partition("\n")[0][:_LINE]
    return ""


class JobHistory:
    """States and messages of one job. Thread-safe.

    Entries are numbered from 0 in the order in which they were added, and never renumbered.

    `entries` is what there is so far: at least one state, and messages as an earlier history kept
    them, whose ids go on to grow. `errors` has
    those of messages that are not kept any more.
    """

    def __init__(
        self,
        limits: Limits,
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
        # The states before the first message that is left, if others were dropped.
        before = entries.index(messages[0]) if self._first_message_id > 1 else 0
        self._dropped_states = list(enumerate(self._states[:before]))
        self._dropped = before + self._first_message_id - 1
        self._kept: list[Entry] = list(entries[before:])

    @property
    def current(self) -> StateEvent:
        """The latest state."""
        return self._states[-1]

    def entries(self) -> tuple[Entry, ...]:
        """All that is kept, oldest first."""
        with self._changed:
            return (*(event for _, event in self._dropped_states), *self._kept)

    def states(self) -> tuple[StateEvent, ...]:
        """All states so far, oldest first."""
        with self._changed:
            return tuple(self._states)

    def last_error(self) -> str:
        """The first line of the latest error message that is kept; empty if there is none."""
        with self._changed:
            return last_error(self._kept)

    def add_state(self, state: JobState, time: float) -> None:
        """Append a state; the caller has checked that it may follow the current one."""
        event = StateEvent(state, time)
        with self._changed:
            self._states.append(event)
            self._kept.append(event)
            self._changed.notify_all()

    @property
    def first_message_id(self) -> int:
        """The id of the oldest message that is kept, or of the first one that comes."""
        return self._first_message_id

    def new_message(
        self,
        importance: Importance,
        text: str,
        time: float,
        transform: str = "",
        worker: str = "",
        record: MessageRecord = None,
    ) -> JobMessage:
        """A message with the next id, cut to the limit, for `add_messages`."""
        text = cut(f"[{transform}] {text}" if transform else text, self._limits.text_chars)
        # As it stands in the text.
        transform = cut(transform, self._limits.text_chars)
        with self._changed:
            message_id = str(self._next_message_id)
            message = JobMessage(
                message_id, iso_time(time), importance, text, transform, worker, record
            )
            self._next_message_id += 1
        return message

    def add_messages(self, messages: Sequence[JobMessage]) -> None:
        """Append the latest new messages, and drop the oldest ones beyond the limits."""
        with self._changed:
            self._kept.extend(messages)
            self._messages += len(messages)
            self._chars += sum(len(message.text) for message in messages)
            if self._messages > self._limits.messages or self._chars > self._limits.message_chars:
                self._drop()
            self._changed.notify_all()

    def _drop(self) -> None:
        """Drop from the old end to a tenth below the limits, so that the cost per message stays
        constant.
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
        self._errors.take(one for one in self._kept[:count] if isinstance(one, JobMessage))
        del self._kept[:count]
        self._dropped += count

    def errors(self) -> Errors:
        """The errors so far, also of messages that are not kept any more."""
        return self._errors.take(one for one in self.entries() if isinstance(one, JobMessage))

    def logs(self, query: LogQuery) -> Logs:
        """A part of the messages that are kept."""
        messages = [one for one in self.entries() if isinstance(one, JobMessage)]
        dropped = int(messages[0].message_id) - 1 if messages else 0
        return select_logs(messages, query, dropped)

    @property
    def early_errors(self) -> Errors:
        """The errors of all messages that are not kept any more, and of some that are."""
        return self._errors.errors

    def read(self, position: int) -> tuple[list[Entry], int]:
        """A batch of entries from number `position` on, and the number to continue with.

        Where entries have been dropped, their states are still given, and one message in place of
        the others.
        """
        with self._changed:
            batch: list[Entry] = []
            if position < self._dropped:
                states = [event for number, event in self._dropped_states if number >= position]
                missed = self._dropped - position - len(states)
                batch.extend(states)
                if missed:
                    batch.append(self._gap(missed))
                position = self._dropped
            start = position - self._dropped
            batch.extend(self._kept[start : start + _BATCH])
            return batch, min(position + _BATCH, self._dropped + len(self._kept))

    def _gap(self, missed: int) -> JobMessage:
        following = self._kept[0]
        time = following.time if isinstance(following, JobMessage) else iso_time(following.time)
        return JobMessage(
            "0", time, Importance.WARNING, f"({missed} earlier messages are no longer kept)"
        )

    def follow(self, gone: Callable[[], bool]) -> Iterator[Entry]:
        """Everything from the start, then what comes, up to and with the terminal state.

        Ends early once `gone()` is true and `wake` was called.
        """
        position = 0
        while not gone():
            batch, position = self.read(position)
            for entry in batch:
                yield entry
                if isinstance(entry, StateEvent) and entry.state.is_terminal:
                    return
            self._wait(lambda: self._end, position, gone)

    def follow_states(self, gone: Callable[[], bool]) -> Iterator[StateEvent]:
        """The current state, then every later one, up to and with the terminal state. Ends early as
        `follow` does.
        """
        with self._changed:
            position = len(self._states) - 1
        while not gone():
            self._wait(lambda: len(self._states), position, gone)
            events = self.states()[position:]
            for event in events:
                yield event
                if event.state.is_terminal:
                    return
            position += len(events)

    def _wait(self, end: Callable[[], int], position: int, gone: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: end() > position or gone())

    def wait_until_ended(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the terminal state; whether it is there."""
        with self._changed:
            return self._changed.wait_for(lambda: self.current.state.is_terminal, timeout)

    def wake(self) -> None:
        """Make the readers ask again whether they are gone."""
        with self._changed:
            self._changed.notify_all()

    @property
    def _end(self) -> int:
        return self._dropped + len(self._kept)
