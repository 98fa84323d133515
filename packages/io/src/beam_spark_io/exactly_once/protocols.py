"""Interface of a sink for `WriteExactlyOnce`, and the check that prevents a repeated commit from
writing twice.

A sink's committer runs in a bundle, and the runner repeats the bundle after a failure. So a commit can
run more than once, also in two processes at the same time. The commit ID stays the same. A committer
therefore writes the elements and the commit's number in one atomic step of the external system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import attrs

Element = TypeVar("Element", contravariant=True)
Produced = TypeVar("Produced", covariant=True)
Published = TypeVar("Published", contravariant=True)


@attrs.frozen
class CommitWindow:
    """Window of the elements of a commit.

    Attributes:
        name: the name that the pipeline gives to the window.
        expiry: the event time (µs since 1970) from which the window gets no further elements.
    """

    name: str
    expiry: int


@attrs.frozen
class CommitId:
    """Identity of one commit, the same in each attempt.

    Attributes:
        run: the write of one job; a second run of the same pipeline has another one.
        shard: the shard of the sink, from 0.
        number: the number of the commit in its run and shard: 1, 2, 3 and so on, without gaps.
        digest: checksum of the elements of this commit and of all commits before it.
        window: window of all elements of this commit; None if the commits ignore windows.
    """

    run: str
    shard: int
    number: int
    digest: bytes
    window: CommitWindow | None = None


@attrs.frozen
class CommitMark:
    """Commit mark: record, in the external system, of the last commit of one shard in one run.

    Attributes:
        number: the number of the commit; 0 before the first commit.
    """

    number: int = 0
    digest: bytes = b""


class SinkUnavailable(Exception):
    """Raised if an external system doesn't respond. The commit is retried after a pause.

    The text names the external system and the reason.
    """


class CommitConflict(Exception):
    """Raised if the commit mark in the external system contradicts the job's state. A retry doesn't help."""


class Writer(Protocol[Element, Produced]):
    """Writer of one bundle, which stores elements in a place that readers don't see, such as a data
    file that no table refers to.

    The names of stored objects must differ between attempts.
    """

    def write(self, element: Element) -> None:
        """Writes one element.

        Raises:
            SinkUnavailable: The external system doesn't respond. The writer hasn't taken the
                element, and the transform calls this method again.
        """

    def close(self) -> Iterable[Produced]:
        """Makes the stored elements durable, and returns the objects that the committer must
        publish, such as file names.

        Raises:
            SinkUnavailable: The external system doesn't respond. The transform calls this method
                again.
        """


class Committer(Protocol[Published]):
    """Committer of one shard of a sink.

    The transform drops a committer after any error, and creates another one.
    """

    def commit(self, commit_id: CommitId, elements: Sequence[Published]) -> Any:
        """Writes elements and the commit's number in one atomic step, unless an earlier attempt has
        written them.

        Use `is_committed` to detect this. A call can repeat an earlier commit, even while the
        earlier call still runs in another process.

        Returns:
            A value that the transform emits, such as the name of a file.

        Raises:
            SinkUnavailable: The external system doesn't respond.
            CommitConflict: The mark contradicts the commit ID.
        """

    def close(self) -> None:
        """Releases connections. The calling thread can differ from the thread of `commit`."""


class ExactlyOnceSink(Protocol[Published]):
    """Description of a sink, which Beam pickles with the pipeline.

    The committer gets the elements of the pipeline, unless the sink is a `WritingSink`.

    Attributes:
        shards: the number of shards, each with a separate committer. Commits of one shard run one
            after another.
    """

    shards: int

    def select_shard(self, element: Published) -> int:
        """Returns the shard of an element, from 0 to ``shards - 1``."""

    def create_committer(self, run: str, shard: int) -> Committer[Published]:
        """Returns a committer for a shard."""


@runtime_checkable
class WritingSink(Protocol[Element, Produced]):
    """Sink whose bundles write elements before the commit, such as a sink of data files."""

    def create_writer(self, run: str) -> Writer[Element, Produced] | None:
        """Returns a writer for one bundle; None if the sink doesn't use writers, so that the
        committer gets the elements.
        """


@runtime_checkable
class CompletingSink(Protocol):
    """Sink with an action after the last commit of a window, such as the creation of a ``_SUCCESS`` file."""

    def complete_window(self, run: str, window: str | None) -> Any:
        """Performs the sink's last action for a window, after all shards have committed the
        window's elements.

        The method must be idempotent, because a call can repeat an earlier call.

        Args:
            run: the write of the job.
            window: name of the window; None at the end of a pipeline whose commits ignore windows.

        Returns:
            A value that the transform emits; None emits nothing.

        Raises:
            SinkUnavailable: The external system doesn't respond.
        """


def is_committed(commit_id: CommitId, mark: CommitMark) -> bool:
    """Returns whether an earlier attempt has written a commit. If not, the caller must write the
    commit now.

    Args:
        mark: the last commit that the external system has stored for the run and shard.

    Raises:
        CommitConflict: The mark is lost, or belongs to other elements.
    """
    where = f"commit {commit_id.number} of run {commit_id.run}, shard {commit_id.shard}"
    if commit_id.number > mark.number + 1:
        raise CommitConflict(
            f"{where} follows commit {mark.number} in the external system: commit marks are lost, "
            "so the sink can't determine which elements are already written. Check the external "
            "system, and start a new job"
        )
    if commit_id.number == mark.number and commit_id.digest != mark.digest:
        raise CommitConflict(
            f"{where} has other elements than the commit with this number in the external system: "
            "the job's state is an"
            " old copy, or a coder isn't deterministic. Start a new job from a known position"
        )
    return commit_id.number <= mark.number
