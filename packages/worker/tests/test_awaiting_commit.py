"""What waits for a commit is kept for so long, of so many bundles, and once."""

from __future__ import annotations

from beam_runner_worker.awaiting_commit import KEPT_SECONDS, MOST_KEPT, AwaitingCommit


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_a_bundle_left_is_taken_once_and_is_that_of_its_last_attempt() -> None:
    waiting: AwaitingCommit[str, str] = AwaitingCommit()
    waiting.keep("a", "first attempt")
    waiting.keep("a", "second attempt")
    assert waiting.take("a") == "second attempt"
    assert waiting.take("a") is None


def test_what_is_too_old_is_forgotten_and_told() -> None:
    told: list[tuple[str, str]] = []
    time = Time()
    waiting: AwaitingCommit[str, str] = AwaitingCommit(lambda *kept: told.append(kept), time)
    waiting.keep("old", "1")
    time.now = KEPT_SECONDS - 1
    waiting.keep("new", "2")
    time.now = KEPT_SECONDS
    assert (waiting.take("old"), waiting.take("new")) == (None, "2")
    assert told == [("old", "1")]


def test_the_oldest_make_room() -> None:
    told: list[int] = []
    waiting: AwaitingCommit[int, str] = AwaitingCommit(lambda number, _: told.append(number))
    for number in range(MOST_KEPT + 2):
        waiting.keep(number, "left")
    assert told == [0, 1]
    assert (waiting.take(1), waiting.take(2)) == (None, "left")


def test_what_is_lost_is_forgotten_in_silence() -> None:
    told: list[tuple[int, str]] = []
    waiting: AwaitingCommit[int, str] = AwaitingCommit(lambda *kept: told.append(kept))
    waiting.keep(1, "lost")
    waiting.keep(2, "there")
    waiting.forget(lambda left: left == "lost")
    assert (waiting.take(1), waiting.take(2), told) == (None, "there", [])
