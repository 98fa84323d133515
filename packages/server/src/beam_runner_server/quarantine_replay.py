"""Replay of a quarantine: feeds elements from quarantine files back into the running job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TypeVar

from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.job.job_events import QuarantineRequested, ReplayRequested, Request
from beam_runner_driver.ledger.quarantine import QuarantinedFile
from beam_runner_driver.quarantine.quarantine_rows import QuarantineRow, read_rows
from beam_runner_jobservices.errors import JobRejected, NotReady
from beam_runner_model.jobs import JobInfo
from beam_runner_model.replays import ReplayProblem, ReplayReport, UnreplayedUnits
from beam_runner_storage.errors import StorageError
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_server.job_answers import wait_for_answer
from beam_runner_server.started_jobs import StartedJob
from beam_runner_server.store_urls import parse_store_url

_ANSWER_SECONDS = 60.0
_MOST_UNITS = 1000
_MOST_BYTES = 4 << 20
_Answer = TypeVar("_Answer")


def replay_quarantine(
    job: JobInfo, started: StartedJob | None, url: str, *, expired: bool
) -> ReplayReport:
    """Feeds the failing elements that a quarantine at a URL contains back into a running job. Each
    element is processed only once, even after several replays.

    Args:
        started: the running job; None if this server doesn't run the job.
        url: folder or URL of the quarantine.
        expired: whether to replay elements whose windows have expired, too.

    Raises:
        JobRejected: the quarantine can't be read.
        NotReady: the job doesn't run, or doesn't answer in time.
    """
    if started is None:
        raise NotReady(f"job {job.job_id} is {job.state.name}: a replay needs a running stream")
    running = started.running
    spec = parse_store_url(url, "the URL of the quarantine")
    try:
        return _replay_units(running, spec, expired=expired)
    except (StorageError, ExternalSystemUnavailable, ValueError) as error:
        raise JobRejected(
            f"Can't replay {url} in job {job.job_id}: {error}", unsupported=False
        ) from error


def _replay_units(running: RunningJob, spec: StoreSpec, *, expired: bool) -> ReplayReport:
    listed: Future[Mapping[str, QuarantinedFile]] = Future()
    files = _send_request(running, QuarantineRequested(listed), listed)
    report = ReplayReport(earlier=sum(len(file.replayed) for file in files.values()))
    waiting = {name: file for name, file in files.items() if len(file.replayed) < file.count}
    missing: list[UnreplayedUnits] = []
    for part in _split_units(_read_units(spec, waiting, missing)):
        answer: Future[ReplayReport] = Future()
        report = report.add(_send_request(running, ReplayRequested(part, expired, answer), answer))
    return report.add(ReplayReport(problems=tuple(missing)))


def _read_units(
    spec: StoreSpec, files: Mapping[str, QuarantinedFile], missing: list[UnreplayedUnits]
) -> Iterator[QuarantineRow]:
    """Yields the units (elements, groups, timers) that aren't replayed yet. Adds units whose file
    is missing to `missing`.
    """
    for (name, file), rows in zip(files.items(), read_rows(spec, files), strict=True):
        if rows is None:
            count = file.count - len(file.replayed)
            missing.append(UnreplayedUnits(ReplayProblem.NO_FILE, "", count, name))
        else:
            yield from (unit for unit in rows if unit.row not in file.replayed)


def _split_units(units: Iterable[QuarantineRow]) -> Iterator[tuple[QuarantineRow, ...]]:
    """Yields units in parts of limited size, because each part is one commit of the job."""
    part: list[QuarantineRow] = []
    size = 0
    for unit in units:
        if part and (len(part) == _MOST_UNITS or size + len(unit.encoded) > _MOST_BYTES):
            yield tuple(part)
            part, size = [], 0
        part.append(unit)
        size += len(unit.encoded)
    if part:
        yield tuple(part)


def _send_request(running: RunningJob, request: Request, answer: Future[_Answer]) -> _Answer:
    running.add_request(request)
    try:
        found = wait_for_answer(running, answer, _ANSWER_SECONDS)
    except TimeoutError as error:
        raise NotReady(
            f"{error}; run the replay again: elements that are already replayed are skipped"
        ) from error
    if found is None:
        raise NotReady(
            f"job {running.job_id} ended during the replay; run the replay again with the ID of "
            "the job that replaced it"
        )
    return found
