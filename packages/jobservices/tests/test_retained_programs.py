"""Tests of the programs that a server retains for rollbacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from beam_runner_model.jobs import JobState, StateEvent
from beam_runner_model.observation import JobTimes
from beam_runner_model.successions import Succession

from beam_runner_jobservices.recorder import FinishedJobSummary
from beam_runner_jobservices.retained_programs import ProgramRetention
from beam_runner_jobservices.store import ArtifactStore

from .fakes import Clock, files_in


@pytest.fixture
def store(tmp_path) -> Iterator[ArtifactStore]:
    with closing(ArtifactStore(tmp_path)) as opened:
        yield opened


@pytest.fixture
def programs(store: ArtifactStore, clock: Clock) -> ProgramRetention:
    store.add_file("owner", b"program")
    return ProgramRetention(store, clock)


def test_program_of_replaced_job_stays_until_its_retention_time_is_over(
    programs, clock, tmp_path
) -> None:
    programs.end_job("old", "owner", Succession(program_kept_until=clock.now + 10))
    programs.release_expired()
    assert programs.is_retained("old")
    assert len(files_in(tmp_path)) == 1
    clock.now += 10
    assert not programs.is_retained("old")
    programs.release_expired()
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("until", [0.0, 1.0])
def test_program_without_retention_time_is_removed_at_end_of_job(programs, until, tmp_path) -> None:
    programs.end_job("old", "owner", Succession(program_kept_until=until))
    assert not programs.is_retained("old")
    assert files_in(tmp_path) == []


def test_program_is_removed_when_the_job_that_replaced_it_ends(
    programs, clock, store, tmp_path
) -> None:
    store.add_file("next owner", b"next program")
    programs.end_job("old", "owner", Succession(program_kept_until=clock.now + 10))
    programs.end_job("next", "next owner", Succession(predecessor="old"))
    assert not programs.is_retained("old")
    assert files_in(tmp_path) == []


def test_restored_program_is_removed_if_the_job_that_replaced_it_has_ended(
    programs, clock, tmp_path
) -> None:
    until = clock.now + 10
    times = JobTimes("old", successor="next", program_kept_until=until)
    last = StateEvent(JobState.UPDATED, clock.now)
    job = FinishedJobSummary("old", "job", {}, "preparation", last, times, 1, "owner")
    programs.restore_programs([job])
    assert not programs.is_retained("old")
    assert files_in(tmp_path) == []
