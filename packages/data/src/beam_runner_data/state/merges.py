"""Background merges of large state segments: started after one commit, adopted by a later commit."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import attrs
from beam_runner_model.threads import start_helper_thread

from beam_runner_data.rows.refs import Segment, StateCommit
from beam_runner_data.state.compaction import CompactionPlan, CompactionResult, compact_segments

_LOGGER = logging.getLogger(__name__)


class StateMergeRunner:
    """Runner of merges in separate threads, one at a time, because bundles have priority for the core.

    Args:
        own: the subfolder of this process for uncommitted files, which is removed when the process
            exits.
    """

    def __init__(self, folder: Path, own: str) -> None:
        self.folder = folder
        self._own = own
        self._begun = 0
        self._turn = threading.Lock()

    def start_merge(self, plan: CompactionPlan) -> StateMerge:
        """Starts a merge of state segments, or queues the merge until the running merge has finished."""
        self._begun += 1
        merge = StateMerge(self.folder, plan)
        name = f"{self._own}/merge-{self._begun}"
        start_helper_thread(lambda: self._run_merge(merge, name), "state merge")
        return merge

    def _run_merge(self, merge: StateMerge, name: str) -> None:
        with self._turn:
            merge.run_merge(name)


class StateMerge:
    """Background merge of some state segments of a key shard.

    Only the thread of the shard may call the methods of a merge, except `run_merge`.
    """

    def __init__(self, folder: Path, plan: CompactionPlan) -> None:
        self._folder = folder
        self._plan = plan
        self._result: Future[CompactionResult] = Future()

    def run_merge(self, name: str) -> None:
        """Merges into a file of this name, unless the merge was discarded."""
        if not self._result.set_running_or_notify_cancel():
            return
        try:
            compaction = compact_segments(self._folder, self._plan, name)
        except BaseException as error:
            # A failed merge only leaves more segments. If a segment is unreadable, the next bundle
            # that reads the segment reports the error.
            _LOGGER.warning("Can't merge state: %s", error)
            self._result.set_exception(error)
        else:
            self._result.set_result(compaction)

    @property
    def is_done(self) -> bool:
        """Whether the merge has ended, successfully or not."""
        return self._result.done()

    def count_needed_segments(self, segments: Sequence[Segment]) -> int:
        """Returns the number of the oldest segments that the shard must not merge until this merge is
        adopted.

        Returns 0 if the merge can no longer be adopted.
        """
        return _find_end_of_merged_segments(self._plan.segments, segments)

    def apply_merge_to_commit(self, commit: StateCommit, name: str) -> StateCommit:
        """Returns a commit in which the merged state segment replaces its source segments; doesn't
        wait for a running merge.

        The commit stays unchanged if the merge failed, or if the shard's segments have changed,
        because another process has merged them meanwhile.
        """
        if self._result.exception() is not None:
            return commit
        done = self._result.result()
        try:
            if done.merged is None:
                return done.replace_segments(commit.segments)
            named = attrs.evolve(done, merged=attrs.evolve(done.merged, path=name))
            adopted = named.replace_segments(commit.segments)
        except ValueError:
            self.discard_merge()
            return commit
        (self._folder / done.merged.path).rename(self._folder / name)
        return adopted

    def discard_merge(self) -> None:
        """Cancels the merge, and removes the file of the merged segment."""
        if not self._result.cancel():
            self._result.add_done_callback(self._remove_merged_file)

    def _remove_merged_file(self, result: Future[CompactionResult]) -> None:
        if result.exception() is None and (merged := result.result().merged) is not None:
            with contextlib.suppress(OSError):
                (self._folder / merged.path).unlink()


def _find_end_of_merged_segments(part: Sequence[Segment], segments: Sequence[Segment]) -> int:
    start = segments.index(part[0]) if part[0] in segments else 0
    stop = start + len(part)
    return stop if tuple(segments[start:stop]) == tuple(part) else 0
