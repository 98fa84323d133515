"""The running jobs of a user share the user's quota of cores."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from beam_runner_driver.lanes import user_cores
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots
from beam_runner_driver.lanes.user_cores import UserCoreShares

QUOTAS = {"ann": 4, "bob": 1}


def test_running_jobs_of_user_share_cores_of_quota() -> None:
    slots = ClusterSlots(40, lambda: 10, UserCoreShares(QUOTAS.get))
    first, second, third = (JobSlots(slots, f"job-{n}", "ann") for n in range(3))
    other, free = JobSlots(slots, "job-4", "bob"), JobSlots(slots, "job-5")
    assert [one.cores for one in (first, second, third, other, free)] == [1, 1, 1, 1, 10]
    third.release_all_slots_of_job()
    assert first.cores == 2
    second.release_all_slots_of_job()
    assert first.cores == 4


def test_core_quota_above_cluster_size_has_no_effect() -> None:
    assert JobSlots(ClusterSlots(8, lambda: 2, UserCoreShares(QUOTAS.get)), "job", "ann").cores == 2


def test_core_quota_limits_cluster_with_fixed_cores() -> None:
    slots = ClusterSlots(None, lambda: None, UserCoreShares(QUOTAS.get))
    assert JobSlots(slots, "job-1", "ann").cores == 4
    assert JobSlots(slots, "job-2").cores is None


def test_core_share_counts_starting_job_and_is_at_least_one() -> None:
    users = UserCoreShares(QUOTAS.get)
    users.add_job("ann")
    assert users.compute_share("ann", starting=1) == 2
    for _ in range(9):
        users.add_job("ann")
    assert users.compute_share("ann") == 1


def test_changed_core_quota_has_effect_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, quotas = 100.0, {"ann": 4}
    monkeypatch.setattr(user_cores, "time", SimpleNamespace(monotonic=lambda: now))
    users = UserCoreShares(quotas.get)
    users.add_job("ann")
    assert users.compute_share("ann") == 4
    quotas["ann"] = 3
    assert users.compute_share("ann") == 4
    now += 1
    assert users.compute_share("ann") == 3
