"""One pipeline in one outage: its start, its end, and its outcome."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import attrs
import grpc
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_model.jobs import Importance, JobMessage, JobState
from beam_runner_model.observation import ThreadStack
from jobs import Job, Pipelines
from streams import BATCH_COUNT, Site, ask, batch, stream

_LOOK_SECONDS = 0.5
_START_SECONDS = 120.0
_AFTER_SECONDS = 2.0
"""Duration of a stream after an outage, seconds."""
_SEEN_SECONDS = 0.5
_AWAY_SECONDS = 60.0
"""Maximum response time of a server on a busy machine, seconds."""
_OF_A_BUSY_SERVER = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_Result = TypeVar("_Result")
_COUNTER = "beam:metric:user:sum_int64:v1"
_FAILED = "beam_spark:stage:bundles_failed:v1"


BOUNDED = {"batch": (), "section": ("--beam_spark_bulk=always",)}
"""Places of bounded jobs, and their options."""


@attrs.frozen
class Plan:
    """Job in an outage.

    Attributes:
        place: part of the job that needs the service; `batch` and `section` are bounded jobs.
        environment: `embedded` or `LOOPBACK`.
        phase: time of the outage: at the job's `begin`, in its `midst`, or at its `end`.
    """

    place: str
    environment: str
    phase: str = "midst"

    @property
    def is_bounded(self) -> bool:
        return self.place in BOUNDED


@attrs.define
class Result:
    """Outcome of a job, a row of the table."""

    place: str
    environment: str
    phase: str
    outcome: str = ""
    detail: str = ""
    state: str = ""
    given: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    attempts_failed: int = 0
    written_again: int = 0
    told: str = ""
    seconds_to_go_on: float = 0.0


class Run:
    """Job during an outage.

    Args:
        plan: parameters of the job.
        pipelines: pipelines of the server.
        name: name of the job.
        folder: folder for the file that ends a stream.
        site: services of the pipeline.
        patience: maximum time without progress after the outage, seconds.
    """

    def __init__(
        self,
        plan: Plan,
        pipelines: Pipelines,
        name: str,
        folder: Path,
        site: Site,
        patience: float,
    ) -> None:
        self.plan = plan
        self.name = name
        self.result = Result(plan.place, plan.environment, plan.phase)
        self._pipelines = pipelines
        self._site = site
        self._stop = folder / f"{name}.stop"
        self._patience = patience
        self._job: Job | None = None
        self._thread = threading.Thread(target=self._submit, daemon=True)
        self._refusals: list[str] = []
        self._came_back = 0.0
        self._seen = 0

    def begin(self) -> None:
        """Submits the job in a thread, because a server without its store delays it."""
        self._thread.start()

    def wait_for_results(self) -> None:
        """Waits until the job has committed something, or has ended."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._has_results():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} has not begun: {self._refusals}")
            time.sleep(_LOOK_SECONDS)

    def end_stream(self) -> None:
        """Has the stream's source end."""
        self._stop.touch()

    def look(self) -> None:
        """Records the job's reports during the outage."""
        if self._job is None:
            self.result.told = "; ".join(self._refusals)
            return
        try:
            # A job starts its self-observation at the first request.
            self._ask(lambda client, job_id: client.get_execution(job_id))
            time.sleep(_SEEN_SECONDS)
            execution = self._ask(lambda client, job_id: client.get_execution(job_id))
        except JobApiError as error:
            self.result.told = str(error)
            return
        self._seen = self._counters()["second"]
        told = [one.neighbour for one in execution.waits]
        told += [one.neighbour or one.step for one in execution.failed]
        self.result.told = "; ".join(sorted({one for one in told if one}))

    def came_back(self) -> None:
        """Notes that the outage has ended."""
        self._came_back = time.monotonic()

    def finish(self) -> None:
        """Waits until the job makes progress, ends it, and checks its result."""
        try:
            self._finish()
        except (AssertionError, JobApiError, TimeoutError, grpc.RpcError) as error:
            self.result.outcome = "hang"
            self.result.detail = f"{type(error).__name__}: {error}; {self._stacks()}"
            self._give_up()
        finally:
            if self._job is not None:
                self._job.result._cleanup()

    def _submit(self) -> None:
        build = batch if self.plan.is_bounded else stream
        deadline = time.monotonic() + _START_SECONDS
        while self._job is None:
            flags = BOUNDED.get(self.plan.place, ("--streaming",))
            pipeline = self._pipelines.new(f"--job_name={self.name}", *flags)
            build(pipeline, self.plan.place, self.name, self._stop, self._site)
            try:
                self._job = self._pipelines.job(pipeline)
            except (grpc.RpcError, RuntimeError) as error:
                self._refusals.append(f"{type(error).__name__}: {error}"[:500])
                if self._came_back and time.monotonic() > max(deadline, self._came_back + 60):
                    return
                time.sleep(_LOOK_SECONDS)

    def _finish(self) -> None:
        self._thread.join(self._patience)
        assert self._job is not None, f"the job can't be submitted: {self._refusals}"
        self._until(self._goes_on, "commits nothing")
        self.result.seconds_to_go_on = round(time.monotonic() - self._came_back, 1)
        time.sleep(_AFTER_SECONDS)
        self.end_stream()
        self._until(lambda: self._state().is_terminal, "does not end")
        self._judge()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._patience
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} {what} for {self._patience:.0f} s")
            time.sleep(_LOOK_SECONDS)

    def _goes_on(self) -> bool:
        return self._state().is_terminal or self._counters()["second"] > self._seen

    def _has_results(self) -> bool:
        if self._job is None:
            return False
        wanted = "given" if self.plan.is_bounded else "second"
        return self._state().is_terminal or self._counters()[wanted] > 0

    def _state(self) -> JobState:
        return self._ask(lambda client, job_id: client.get_state(job_id).state)

    def _ask(self, question: Callable[[JobClient, str], _Result]) -> _Result:
        """Returns the server's answer to a question about the job.

        Raises:
            JobApiError: it hasn't answered for long.
        """
        assert self._job is not None
        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                with JobClient(self._pipelines.address) as client:
                    return question(client, self._job.job_id)
            except JobApiError as error:
                if error.code not in _OF_A_BUSY_SERVER or time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_SECONDS)

    def _counters(self) -> Counter[str]:
        """Returns the committed counters of the job; `failed` is the number of failed attempts."""
        counters: Counter[str] = Counter()
        metrics = self._ask(lambda client, job_id: client.get_metrics(job_id))
        for info in metrics.committed:
            if info.urn == _COUNTER and info.labels["NAMESPACE"] == "kills":
                counters[info.labels["NAME"]] += decode_metric_value(info)
        for info in metrics.attempted:
            if info.urn == _FAILED:
                counters["failed"] += decode_metric_value(info)
        return counters

    def _judge(self) -> None:
        result = self.result
        state, found = self._state(), self._counters()
        result.state = state.name
        if state is not JobState.DONE:
            result.outcome = state.name
            result.detail = self._ask(_errors)
            return
        result.given = BATCH_COUNT if self.plan.is_bounded else found["given"]
        result.lost = max(found["lost"], result.given - (found["arrived"] - found["doubled"]))
        result.doubled, result.wrong = found["doubled"], found["wrong"]
        result.attempts_failed = found["failed"]
        if result.attempts_failed:
            result.detail = self._ask(_failures)
        if self.plan.place == "sink":
            written = json.loads(ask(self._site.service, f"/sink/{self.name}"))
            result.lost = max(result.lost, result.given - written["different"])
            result.written_again = written["writes"] - result.given
        if not result.given:
            result.outcome = "nothing given"
        elif result.lost or result.doubled or result.wrong:
            result.outcome = "inexact"
        else:
            result.outcome = "exact"

    def _stacks(self) -> str:
        """Returns diagnostics of a job that hangs."""
        if self._job is None:
            return ""
        try:
            stacks = self._ask(lambda client, job_id: client.get_stacks(job_id))
            lines = [f"{one.pid} {one.thread}: {_innermost(one)}" for one in stacks]
            return (
                f"{self._ask(lambda c, job_id: c.get_execution(job_id))} {self._counters()} {lines}"
            )
        except JobApiError as error:
            return str(error)

    def _give_up(self) -> None:
        if self._job is None:
            return
        try:
            self._ask(lambda client, job_id: client.cancel_job(job_id))
        except JobApiError as error:
            self.result.detail += f"; it can't be cancelled: {error}"


def _innermost(stack: ThreadStack) -> str:
    return " < ".join(f"{frame.function}:{frame.line}" for frame in stack.frames[-4:])


def _failures(client: JobClient, job_id: str) -> str:
    """Returns the first messages about failed attempts at bundles."""
    return " ".join([text for text in _texts(client, job_id) if "attempt" in text][:3])[:2000]


def _errors(client: JobClient, job_id: str) -> str:
    """Returns the last errors of a job that has ended."""
    return " ".join(_texts(client, job_id, Importance.ERROR))[-2000:]


def _texts(client: JobClient, job_id: str, least: Importance = Importance.DEBUG) -> Iterator[str]:
    """Yields the messages of a job that has ended."""
    for entry in client.follow_messages(job_id, 30):
        if isinstance(entry, JobMessage) and entry.importance >= least:
            yield entry.text
