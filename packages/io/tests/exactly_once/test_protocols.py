"""Tests of the check that keeps a repeated commit from writing again."""

from __future__ import annotations

import pytest
from beam_runner_urns.errors import SINK_CONFLICT

from beam_spark_io.exactly_once.committing import make_commit_id
from beam_spark_io.exactly_once.protocols import (
    CommitConflict,
    CommitId,
    CommitMark,
    CommitWindow,
    is_committed,
)

MARK = CommitMark(7, b"seven")


@pytest.mark.parametrize(
    ("number", "digest", "expected"),
    [(8, b"eight", False), (7, b"seven", True), (6, b"anything", True), (1, b"one", True)],
)
def test_commit_up_to_the_recorded_mark_counts_as_committed(
    number: int, digest: bytes, expected: bool
) -> None:
    assert is_committed(CommitId("run", 0, number, digest), MARK) is expected


@pytest.mark.parametrize(
    ("number", "digest", "text"), [(9, b"nine", "marks are lost"), (7, b"other", "other elements")]
)
def test_commit_that_contradicts_the_recorded_mark_is_refused(
    number: int, digest: bytes, text: str
) -> None:
    with pytest.raises(CommitConflict, match=text):
        is_committed(CommitId("run", 0, number, digest), MARK)


def test_commit_ids_of_equal_batches_are_equal_and_depend_on_earlier_commits() -> None:
    first = make_commit_id("run", 1, CommitMark(), [b"a", b"b"])
    assert first == make_commit_id("run", 1, CommitMark(), [b"a", b"b"])
    assert first.number == 1
    last = CommitMark(first.number, first.digest)
    second = make_commit_id("run", 1, last, [b"c"])
    other = make_commit_id("run", 1, CommitMark(1, b"another first commit"), [b"c"])
    assert second.number == other.number == 2
    assert second.digest != other.digest


def test_commit_ids_of_windows_differ_and_name_their_window() -> None:
    first, second = CommitWindow("a", 1), CommitWindow("b", 1)
    ids = [make_commit_id("run", 0, CommitMark(), [b"a"], one) for one in (first, second, None)]
    assert [one.window for one in ids] == [first, second, None]
    assert len({one.digest for one in ids}) == 3


@pytest.mark.parametrize("batches", [[b"ab"], [b"a", b"b", b""], [b"b", b"a"]])
def test_commit_digest_distinguishes_the_borders_of_batches(batches: list[bytes]) -> None:
    known = make_commit_id("run", 0, CommitMark(), [b"a", b"b"])
    assert make_commit_id("run", 0, CommitMark(), batches).digest != known.digest


def test_runner_recognizes_commit_conflict_by_class_name() -> None:
    """The runner fails a job with a conflict immediately, by the text of the error."""
    assert f"{CommitConflict.__module__}.{CommitConflict.__qualname__}" == SINK_CONFLICT
