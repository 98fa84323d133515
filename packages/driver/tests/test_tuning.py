"""Tests of the partitioning of a job before its run."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from beam_runner_engine.scheduler.policy import SectionPolicy, SectionStatistics
from beam_runner_engine.scheduler.specs import Limits, Pauses
from beam_runner_runtime.job_options import BulkMode, RunnerOptions

from beam_runner_driver.tuning import (
    RetrySettings,
    choose_job_tuning,
    count_key_shards,
    set_retry_limits,
)

RETRIES = RetrySettings()


def plan(*, streaming: bool = False, turns: bool = False, endless: bool = False) -> Mock:
    return Mock(streaming=streaming, takes_turns=turns, one_interpreter=turns, is_endless=endless)


@pytest.mark.parametrize(
    ("cores", "many", "few"),
    [(1, 8, 2), (2, 16, 4), (8, 64, 16), (16, 64, 32), (32, 64, 64), (100, 200, 200)],
)
def test_key_shard_count_is_large_enough_for_small_shards_within_limit(
    cores: int, many: int, few: int
) -> None:
    assert count_key_shards(cores, few=False) == many
    assert count_key_shards(cores, few=True) == few


def test_job_tuning_differs_for_streams_and_bounded_jobs() -> None:
    bounded = choose_job_tuning(plan(), 2, RetrySettings(3), RunnerOptions())
    assert (bounded.shards, bounded.limits.user_attempts) == (16, 3)
    assert bounded.policy.checkpoint_after == 10_000
    stream = choose_job_tuning(plan(streaming=True), 2, RETRIES, RunnerOptions())
    assert (stream.shards, stream.policy.checkpoint_after) == (4, 500)
    assert not stream.policy.halves_restrictions
    assert not choose_job_tuning(plan(turns=True), 2, RETRIES, RunnerOptions()).policy.spreads


@pytest.mark.parametrize(("cores", "least"), [(2, 64), (1000, 1000)])
def test_stage_without_keys_can_use_all_cores_of_a_large_cluster(cores: int, least: int) -> None:
    tuning = choose_job_tuning(plan(streaming=True), cores, RETRIES, RunnerOptions())
    assert tuning.limits.bundles_per_stage >= least


@pytest.mark.parametrize(
    ("server", "job", "shares_data", "has_sections"),
    [
        (BulkMode.AUTO, None, True, False),
        (BulkMode.AUTO, None, False, True),
        (BulkMode.NEVER, None, False, False),
        (BulkMode.ALWAYS, None, True, True),
        (BulkMode.ALWAYS, BulkMode.NEVER, False, False),
        (BulkMode.ALWAYS, BulkMode.AUTO, True, False),
        (BulkMode.NEVER, BulkMode.AUTO, False, True),
        (BulkMode.NEVER, BulkMode.ALWAYS, True, True),
    ],
)
def test_job_option_disables_sections_unless_machines_share_no_store(
    server: BulkMode, job: BulkMode | None, shares_data: bool, has_sections: bool
) -> None:
    wishes = RunnerOptions(bulk=job)
    policy = choose_job_tuning(
        plan(), 2, RETRIES, wishes, server, shares_data=shares_data
    ).section_policy
    assert (policy is not None) is has_sections
    little = SectionStatistics(("read", "group"), 1, 1, None, 1, 8)
    assert policy is None or policy.should_open_section(little)


@pytest.mark.parametrize(
    ("work", "size", "opens"),
    [(None, 1, True), (10, 1, False), (1 << 30, 1, True), (10, 1 << 30, True)],
    ids=["a root says nothing", "little", "large restrictions", "large data"],
)
def test_sections_with_shared_folder_are_used_for_large_or_unknown_data(
    work: int | None, size: int, *, opens: bool
) -> None:
    def policy(bulk: BulkMode) -> SectionPolicy | None:
        return choose_job_tuning(
            plan(), 2, RETRIES, RunnerOptions(), bulk, on_cluster=True
        ).section_policy

    found = policy(BulkMode.AUTO)
    assert found is not None
    assert (
        found.should_open_section(SectionStatistics(("read", "group"), 1, size, work, 1, 8))
        is opens
    )
    assert policy(BulkMode.NEVER) is None


def test_sections_contain_many_shuffles_if_output_per_shuffle_is_limited() -> None:
    def exchanges(*, shares_data: bool) -> int:
        tuning = choose_job_tuning(
            plan(), 2, RETRIES, RunnerOptions(), BulkMode.ALWAYS, shares_data=shares_data
        )
        return tuning.limits.section_exchanges

    assert exchanges(shares_data=True) == 4
    assert exchanges(shares_data=False) == 100


@pytest.mark.parametrize("streaming", [True, False])
def test_job_options_override_tuning(streaming: bool) -> None:
    asked = RunnerOptions(task_attempts=5, key_shards=7, checkpoint_interval=1_000)
    tuning = choose_job_tuning(plan(streaming=streaming), 2, RETRIES, asked)
    assert (tuning.shards, tuning.limits.user_attempts) == (7, 5)
    assert tuning.policy.checkpoint_after == 1_000


def limits_of(wishes: RunnerOptions, retries: RetrySettings, *, endless: bool) -> Limits:
    return set_retry_limits(Limits(), plan(endless=endless), retries, wishes)


def test_stream_retries_bundles_and_waits_for_outages_without_limit() -> None:
    limits = limits_of(RunnerOptions(), RetrySettings(3, None, 60), endless=True)
    assert (limits.user_attempts, limits.outside_attempts, limits.outage_limit) == (None,) * 3
    assert limits.pauses == Pauses(1_000, 120_000)


@pytest.mark.parametrize(("attempts", "outside"), [(1, 4), (4, 4), (9, 9)])
def test_stream_with_attempt_limit_tolerates_as_many_losses_and_at_least_four(
    attempts: int, outside: int
) -> None:
    by_server = limits_of(RunnerOptions(), RetrySettings(3, attempts), endless=True)
    by_job = limits_of(RunnerOptions(task_attempts=attempts), RetrySettings(3, 7), endless=True)
    for limits in (by_server, by_job):
        assert (limits.user_attempts, limits.outside_attempts) == (attempts, outside)
        assert limits.pauses.shortest
        assert limits.outage_limit is None


def test_bounded_job_has_attempt_limit_no_retry_pauses_and_outage_limit() -> None:
    limits = limits_of(RunnerOptions(), RetrySettings(3, None, 1.5), endless=False)
    assert (limits.user_attempts, limits.outside_attempts, limits.outage_limit) == (3, 4, 1_500)
    assert limits.pauses == Pauses(0, 0)
    asked = limits_of(RunnerOptions(task_attempts=5), RetrySettings(3, None, None), endless=False)
    assert (asked.user_attempts, asked.outage_limit) == (5, None)
