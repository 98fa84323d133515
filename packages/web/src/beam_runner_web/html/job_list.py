"""List of jobs, which the page's URL filters and sorts."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
from beam_runner_jobservices.client import JobClient, read_times_by_job
from beam_runner_model.jobs import JobInfo, JobState
from beam_runner_model.observation import JobTimes

from beam_runner_web.watch import masking

PAGE_LENGTH = 50
_NUMBERED = re.compile(r"^(?P<word>\D*)\d+$", re.ASCII)
STATES = ("running", "failed", "done", "cancelled", "ended")
SORTS = ("name", "started", "took")
_EARLIER_RUNS = 3
_RUNNING = (JobState.STARTING, JobState.RUNNING, JobState.DRAINING, JobState.CANCELLING)


_WELL_ENDED = (JobState.DONE, JobState.DRAINED, JobState.UPDATED)


@attrs.frozen
class JobHealth:
    """Health of a running job: `mark` is `good`, `warn` or `bad`, `text` is the sentence about the worst
    problem or empty, and `progress` is the line about the progress.
    """

    mark: str
    text: str = ""
    progress: str = ""


@attrs.frozen
class JobListLine:
    """A job in the list. Times are wall-clock seconds, or None if the server doesn't report them.

    Attributes:
        kept_until: the time at which the server removes the state of a finished job; None if the
            server retains no state.
        earlier: the run times of the latest successful jobs of the same name before this job, in
            seconds, the latest first.
        runs: the number of jobs of the name, if the line stands for all of them.
        health: the health of a running job; None if not checked.
    """

    id: str
    name: str
    state: JobState
    streaming: bool
    started: float | None = None
    ended: float | None = None
    error: str = ""
    kept_until: float | None = None
    user: str = ""
    earlier: tuple[float, ...] = ()
    runs: int = 1
    health: JobHealth | None = None

    @property
    def seconds(self) -> float | None:
        """The job's run time in seconds so far; None if the server doesn't report the run time."""
        return None if self.started is None else (self.ended or time.time()) - self.started


@attrs.frozen
class JobList:
    """One page of the job list. `counts` are numbers of jobs by filter, and `total` is the number
    of jobs that match the filter.
    """

    lines: tuple[JobListLine, ...]
    counts: Mapping[str, int]
    total: int
    page: int
    pages: int

    @property
    def has_users(self) -> bool:
        """Whether a job of the page has a user."""
        return any(line.user for line in self.lines)


def read_job_lines(client: JobClient) -> list[JobListLine]:
    """Returns the jobs of a server, oldest first, with times if the server reports times.

    Raises:
        JobApiError: the server doesn't answer.
    """
    times = read_times_by_job(client)
    jobs = _sort_by_submission(client.list_jobs())
    lines = [_make_job_line(job, times.get(job.job_id) or JobTimes(job.job_id)) for job in jobs]
    return list(_add_earlier_runs(lines))


def _add_earlier_runs(lines: Iterable[JobListLine]) -> Iterator[JobListLine]:
    """Adds the run times of earlier jobs of the same name. `lines` are oldest first."""
    earlier: dict[str, tuple[float, ...]] = {}
    for line in lines:
        known = earlier.get(line.name, ())
        yield attrs.evolve(line, earlier=known)
        if line.state in (JobState.DONE, JobState.DRAINED) and line.seconds is not None:
            earlier[line.name] = (line.seconds, *known)[:_EARLIER_RUNS]


def _sort_by_submission(jobs: Sequence[JobInfo]) -> Sequence[JobInfo]:
    """Returns jobs in the order of their submission.

    If ids consist of a word and a number, the order is by number, because Prism lists its jobs in
    any order. Otherwise, the order is the server's.
    """
    found = [_NUMBERED.match(job.job_id) for job in jobs]
    words = {one["word"] if one else None for one in found}
    if None in words or len(words) != 1:
        return jobs
    return sorted(jobs, key=lambda job: int(job.job_id.removeprefix(next(iter(words)) or "")))


def _make_job_line(job: JobInfo, times: JobTimes) -> JobListLine:
    name = masking.get_option(job.options, masking.JOB_NAME) or job.job_name or job.job_id
    streaming = bool(masking.get_option(job.options, "streaming"))
    started = times.started or times.submitted
    return JobListLine(
        job.job_id,
        str(name),
        job.state,
        streaming,
        started,
        times.ended,
        times.error,
        times.kept_until,
        times.user,
    )


def filter_jobs(
    lines: Iterable[JobListLine],
    state: str = "",
    name: str = "",
    page: int = 1,
    sort: str = "",
    *,
    is_grouped: bool = False,
) -> JobList:
    """Returns the jobs whose name, id or user contains `name`, and that are in `state`.

    By default, running jobs come first, then the latest. `sort` is one of `SORTS`, with `-` for the
    descending order. If `is_grouped` is true, the first job of each name stands for all jobs of the
    name.
    """
    named = [
        line for line in lines if name.lower() in f"{line.name}\n{line.id}\n{line.user}".lower()
    ]
    named.reverse()
    counts = {one: sum(_matches_state(line, one) for line in named) for one in STATES}
    left = _sort_job_lines([one for one in named if not state or _matches_state(one, state)], sort)
    if is_grouped:
        left = _group_job_lines(left)
    pages = max(1, -(-len(left) // PAGE_LENGTH))
    page = min(max(1, page), pages)
    start = (page - 1) * PAGE_LENGTH
    return JobList(tuple(left[start : start + PAGE_LENGTH]), counts, len(left), page, pages)


def _sort_job_lines(lines: list[JobListLine], sort: str) -> list[JobListLine]:
    by, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if by == "name":
        return sorted(lines, key=lambda line: line.name.lower(), reverse=is_descending)
    if by not in SORTS:
        return sorted(lines, key=lambda line: line.state not in _RUNNING)
    times = [(line.started if by == "started" else line.seconds, line) for line in lines]
    known = sorted(
        ((at, line) for at, line in times if at is not None),
        key=lambda one: one[0],
        reverse=is_descending,
    )
    return [line for _, line in known] + [line for at, line in times if at is None]


def _group_job_lines(lines: list[JobListLine]) -> list[JobListLine]:
    counts = Counter(line.name for line in lines)
    first = {line.name: line for line in reversed(lines)}
    return [attrs.evolve(one, runs=counts[one.name]) for one in lines if first[one.name] is one]


def _matches_state(line: JobListLine, state: str) -> bool:
    match state:
        case "running":
            return line.state in _RUNNING
        case "failed":
            return line.state is JobState.FAILED
        case "done":
            return line.state in _WELL_ENDED
        case "ended":
            return line.state.is_terminal
        case _:
            return line.state.name.lower() == state
