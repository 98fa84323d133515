"""Of many jobs that come at once some begin, others in their order as those end, and none for ever."""

from __future__ import annotations

from unittest.mock import patch

from beam_spark_executor.driver import turns as module
from beam_spark_executor.driver.turns import Turns
from beam_spark_executor.tuning import TUNING


def nobody() -> None: ...


def test_jobs_begin_in_their_order_as_others_end() -> None:
    turns, woken = Turns(2), []
    begun = [job for job in "abcde" if turns.take(job, lambda job=job: woken.append(job))]
    assert begun == ["a", "b"]
    assert turns.take("a", nobody)  # may ask again
    turns.leave("b")
    assert woken == ["c"]
    assert not turns.take("d", nobody)
    assert turns.take("c", nobody)
    turns.leave("d")  # was cancelled before its turn
    turns.leave("a")
    assert woken == ["c", "e"]
    assert turns.take("e", nobody)


def test_a_long_job_holds_nobody_up() -> None:
    now = 100.0
    with patch.object(module.time, "monotonic", lambda: now):
        turns = Turns(1)
        assert turns.take("stream", nobody)
        assert not turns.take("other", nobody)
        now += TUNING.job_turn_seconds
        assert turns.take("other", nobody)
        assert not turns.take("third", nobody)
        turns.leave("other")
        assert turns.take("third", nobody)


def test_without_a_limit_all_begin() -> None:
    turns = Turns(float("inf"))
    assert all(turns.take(str(number), nobody) for number in range(1000))
