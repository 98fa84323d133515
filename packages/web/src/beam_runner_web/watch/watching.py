"""Data of jobs for open pages, requested once for all pages, and only while a page is open."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.error_log import JobErrors, collect_errors
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.figures.estimates import ProgressEstimates, ProgressFigures
from beam_runner_jobservices.figures.step_metrics import compute_figures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.job_log import LogAnswer, LogQuery
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobInfo, JobMessage, StateEvent
from beam_runner_model.observation import Execution, SeriesPoint
from beam_runner_model.successions import Succession

from .snapshots import JobSnapshot, MetricSample
from .stalled_stacks import StalledStacks

_SETTLED_SECONDS = 0.1
_SETTLE_LIMIT_SECONDS = 2.0
_MOST_MESSAGES = 20_000
_SERIES_LENGTH = 720
_COST_FACTOR = 20
_NOT_NOW = ("FAILED_PRECONDITION", "NOT_FOUND")
"""The gRPC status codes of a server for a job that isn't running, or that has no such data."""

Told = TypeVar("Told")


class JobFollower:
    """Follower of one job: a thread reads the job's messages, and other data is requested when a
    page needs it. Thread-safe.

    `feed_client` is only for the stream of messages, and is closed with it. Create a follower when
    a page opens, and close it when no page is open.

    Raises:
        JobApiError: the job doesn't exist, or the server can't be reached.
    """

    def __init__(self, client: JobClient, feed_client: JobClient, job: JobInfo) -> None:
        self._client = client
        job_id = job.job_id
        self._job_id = job_id
        self._job = job
        self._tree = StepTree(describe_pipeline(client.get_pipeline(job_id)))
        self._lock = threading.Lock()
        self._samples: deque[MetricSample] = deque(maxlen=_SERIES_LENGTH)
        self._estimates = ProgressEstimates()
        self._feed = _MessageFeed(feed_client, job_id)
        self._standing = StalledStacks(client, job_id)
        self._latest: JobSnapshot | None = None
        self._asked = 0.0
        self._cost = 0.0
        self._untold: set[str] = set()
        self._before: Mapping[str, tuple[SeriesPoint, ...]] | None = None
        listed = self._call_optional("ListJobs", client.get_job_times) or ()
        self._user = next((one.user for one in listed if one.job_id == job_id), "")
        self.used = time.monotonic()

    @property
    def pause(self) -> float:
        """Seconds between two requests, so that requests are only a small part of the server's work."""
        return max(1.0, _COST_FACTOR * self._cost)

    def get_snapshot(self) -> JobSnapshot:
        """Returns the job's data, not older than `pause`."""
        self.used = time.monotonic()
        with self._lock:
            known = self._latest
            if known is not None and (
                (known.state.is_terminal and not known.away)
                or time.monotonic() - self._asked < self.pause * 0.9
            ):
                return known
            began = time.monotonic()
            try:
                self._latest = self._take_snapshot()
            except JobApiError as error:
                if known is None or error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
                    raise
                self._latest = attrs.evolve(known, away=error.text, taken=time.time())
            self._asked = time.monotonic()
            self._cost = self._asked - began if known is not None else 0.0
            return self._latest

    def _take_snapshot(self) -> JobSnapshot:
        # Read the state first: if the job has finished, the data that follows is final.
        state = self._client.get_state(self._job_id).state
        execution = None if state.is_terminal else self._request_execution()
        waits = () if execution is None else execution.waits
        figures = compute_figures(self._client.get_metrics(self._job_id), self._tree, waits)
        self._feed.wait_until_quiet(ended=state.is_terminal)
        events, messages = self._feed.read()
        now = time.time()
        self._samples.append(MetricSample(now, figures))
        errors = self._request_errors(messages)
        snapshot = JobSnapshot(
            job=attrs.evolve(self._job, state=state),
            tree=self._tree,
            events=events,
            messages=messages,
            figures=figures,
            samples=tuple(self._samples),
            taken=now,
            execution=execution,
            failures=errors.groups,
            warnings=errors.warnings,
            last_warning=errors.last_warning,
            history=self._request_history(),
            threads=self._standing.find_user_threads(execution),
            user=self._user,
            succession=self._call_optional("GetSuccession", self._get_succession) or Succession(),
        )
        return attrs.evolve(snapshot, progress=self._estimate_progress(snapshot))

    def _estimate_progress(self, snapshot: JobSnapshot) -> ProgressFigures | None:
        if snapshot.state.is_terminal:
            return None
        self._estimates.record_sample(snapshot.figures, self._tree)
        return self._estimates.estimate_progress(
            snapshot.figures,
            self._tree,
            snapshot.execution,
            seconds=snapshot.seconds,
            earlier_lags=snapshot.earlier_lags,
        )

    def _get_succession(self) -> Succession:
        return self._client.get_succession(self._job_id)

    def _call_optional(self, what: str, ask: Callable[[], Told], *no_answers: str) -> Told | None:
        """Returns the answer to a call that some job servers don't support. If this server doesn't,
        the call isn't repeated.

        The result is also None if the server answers with one of these codes.
        """
        if what in self._untold:
            return None
        try:
            return ask()
        except JobApiError as error:
            if error.code == "UNIMPLEMENTED":
                self._untold.add(what)
            elif error.code not in no_answers:
                raise
            return None

    def _request_execution(self) -> Execution | None:
        """Returns the job's running bundles and what the job waits for; None if the server doesn't report them."""
        return self._call_optional(
            "execution", lambda: self._client.get_execution(self._job_id), *_NOT_NOW
        )

    def _request_errors(self, messages: tuple[JobMessage, ...]) -> JobErrors:
        """Returns the job's errors. If the server doesn't report errors, returns the errors among `messages`."""
        found = self._call_optional("errors", lambda: self._client.get_errors(self._job_id))
        if found is None:
            return collect_errors(messages, self._tree.names)
        # Map the steps of the errors to the tree, which doesn't contain root composites that only
        # contain all other steps.
        groups = (
            attrs.evolve(
                one, failure=attrs.evolve(one.failure, step=self._tree.find_step(one.failure.step))
            )
            for one in found.groups
        )
        return attrs.evolve(found, groups=tuple(groups))

    def _request_history(self) -> Mapping[str, tuple[SeriesPoint, ...]]:
        """Returns the history before the page was opened, requested only once: the follower records later data."""
        if self._before is None:
            found = (
                self._call_optional(
                    "series", lambda: self._client.get_stage_series(self._job_id), *_NOT_NOW
                )
                or ()
            )
            began = self._samples[0].time
            self._before = {
                one.stage: tuple(point for point in one.points if point[0] < began) for one in found
            }
        return self._before or {}

    def query_logs(self, query: LogQuery) -> LogAnswer | None:
        """Returns a part of the job's log; None if the server lacks the observation service or is unavailable."""
        away = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        return self._call_optional(
            "logs", lambda: self._client.query_logs(self._job_id, query), *away
        )

    def close(self) -> None:
        """Stops following."""
        self._feed.close()


class _MessageFeed:
    """A job's stream of states and messages, read by a separate thread."""

    def __init__(self, client: JobClient, job_id: str) -> None:
        self._client = client
        self._entries = client.follow_messages(job_id, reconnect_seconds=3600.0)
        self._lock = threading.Lock()
        self._events: list[StateEvent] = []
        self._messages: deque[JobMessage] = deque(maxlen=_MOST_MESSAGES)
        self._closed = False
        self._last = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._read_entries, name="beam-web-messages", daemon=True).start()

    def _read_entries(self) -> None:
        try:
            for entry in self._entries:
                with self._lock:
                    if self._closed:
                        return
                    if isinstance(entry, StateEvent):
                        self._events.append(entry)
                    else:
                        self._messages.append(entry)
                    self._last = time.monotonic()
        except JobApiError:
            # The calls that request the state report this error to the user.
            pass
        finally:
            self._over.set()

    def wait_until_quiet(self, *, ended: bool) -> None:
        """Waits until all events so far are read: until the end of the stream, or until no event
        has arrived for 0.1 s.
        """
        limit = time.monotonic() + _SETTLE_LIMIT_SECONDS
        if ended:
            self._over.wait(_SETTLE_LIMIT_SECONDS)
            return
        while not self._over.is_set() and time.monotonic() < limit:
            quiet = time.monotonic() - self._last
            if quiet >= _SETTLED_SECONDS:
                return
            self._over.wait(_SETTLED_SECONDS - quiet)

    def read(self) -> tuple[tuple[StateEvent, ...], tuple[JobMessage, ...]]:
        with self._lock:
            return tuple(self._events), tuple(self._messages)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._client.close()


class JobFollowers:
    """Followers (readers) of the jobs that are open in pages. Thread-safe.

    `connect` makes clients of the job server.
    """

    def __init__(self, connect: Callable[[], JobClient], keep_seconds: float = 20.0) -> None:
        self._connect = connect
        self.client = connect()
        self._keep = keep_seconds
        self._lock = threading.Lock()
        self._watches: dict[str, JobFollower] = {}

    def get_follower(self, job_id: str) -> JobFollower:
        """Returns the follower of a job, which reads the job's messages. Creates missing followers.

        Raises:
            JobApiError: NOT_FOUND if the job doesn't exist; or the server's error.
        """
        with self._lock:
            known = self._watches.get(job_id)
        if known is not None:
            return known
        job = next((job for job in self.client.list_jobs() if job.job_id == job_id), None)
        if job is None:
            raise JobApiError("NOT_FOUND", f"no job {job_id!r} on this server")
        feed_client = self._connect()
        try:
            made = JobFollower(self.client, feed_client, job)
        except BaseException:
            feed_client.close()
            raise
        with self._lock:
            kept = self._watches.setdefault(job_id, made)
        if kept is not made:
            made.close()
        return kept

    def close_unused(self) -> None:
        """Closes the followers of jobs that no page has used for some seconds."""
        limit = time.monotonic() - self._keep
        with self._lock:
            unused = [key for key, watch in self._watches.items() if watch.used < limit]
            closing = [self._watches.pop(key) for key in unused]
        for watch in closing:
            watch.close()

    def close_follower(self, job_id: str) -> None:
        """Closes the follower of a job that the server doesn't know anymore."""
        with self._lock:
            watch = self._watches.pop(job_id, None)
        if watch is not None:
            watch.close()

    def close(self) -> None:
        """Closes all followers, and the client."""
        with self._lock:
            closing = list(self._watches.values())
            self._watches.clear()
        for watch in closing:
            watch.close()
        self.client.close()
