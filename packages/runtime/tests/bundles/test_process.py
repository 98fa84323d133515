"""Tests of a worker process: its replies have the right order, for any thread that does the work."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_model.bundles import BundleSplit
from beam_runner_worker import awaiting_commit
from beam_runner_worker.errors import BundleError, HarnessError
from beam_runner_worker.log_records import LogRecord, Severity
from rig import Rig
from served_process import SECONDS, Serve, Served, nothing
from small_plans import bundle_of, elements, plan_of, stage
from waiting import wait_until
from worker_doubles import FakeHarness

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.temporary import redirect_temporary_files
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, UserFailure
from beam_runner_runtime.channel.messages import (
    AbandonBundle,
    BundleReply,
    CloseLane,
    EndJob,
    FromServer,
    LeaveLoop,
    LogBatch,
    LoopReply,
    RunBundle,
    RunFinalizers,
    RunLoop,
    SplitReply,
    SplitRequest,
    TearDownDoFns,
    WorkerClosed,
)

READING = plan_of([stage("read")])


def order(number: int = 7, *values: bytes) -> RunBundle:
    bundle = bundle_of(elements("x", *(values or (b"a", b"b", b"c"))), number=number)
    return RunBundle(bundle, f"1-{number}-1")


def test_worker_process_replies_to_bundles_in_order(serve: Serve) -> None:
    served = serve(FakeHarness(nothing))
    for number in range(3):
        served.tell(order(number))
    replies = [served.channel.next() for _ in range(3)]
    assert [reply.done.bundle for reply in replies] == [0, 1, 2]


def test_worker_process_stops_serving_closed_lane(serve: Serve) -> None:
    served = serve(FakeHarness(nothing))
    served.tell(order())
    served.tell(CloseLane())
    served.thread.join(SECONDS)
    assert not served.thread.is_alive()
    assert isinstance(served.channel.next(), BundleReply)


@pytest.mark.parametrize(
    ("error", "failure", "reason"),
    [
        (BundleError("T", "ImportError: x", "t"), UserFailure("T", "ImportError: x", "t"), ""),
        (HarnessError("no SDK came"), None, "HarnessError: no SDK came"),
    ],
)
def test_worker_process_reports_stage_that_cannot_be_built(
    serve: Serve, error: Exception, failure: UserFailure | None, reason: str
) -> None:
    """The failure is a user failure, such as an unloadable main session, or an external failure."""
    served = serve(FakeHarness(nothing))
    served.environment.error = error
    served.tell(order())
    assert served.channel.next() == BundleFailure(Attempt(7, 1), failure, reason)
    served.environment.error = None
    served.tell(order(8))
    assert served.channel.next().done.bundle == 8


@attrs.define(eq=False)
class Slow(FakeHarness):
    """A harness whose bundle waits, and whose split can wait as well."""

    begun: threading.Event = attrs.field(factory=threading.Event)
    go_on: threading.Event = attrs.field(factory=threading.Event)
    asked_to_split: threading.Event = attrs.field(factory=threading.Event)
    split_now: threading.Event = attrs.field(factory=threading.Event)

    def process_bundle(self, *arguments: Any) -> Any:
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        return FakeHarness.process_bundle(self, *arguments)

    def split(self, keep: float, elements: int) -> Any:
        self.asked_to_split.set()
        assert self.split_now.wait(SECONDS)
        return FakeHarness.split(self, keep, elements)


def running(serve: Serve, **more: Any) -> tuple[Served, Slow]:
    harness = Slow(nothing, **more)
    served = serve(harness)
    served.tell(order())
    assert harness.begun.wait(SECONDS)
    return served, harness


def test_worker_process_reports_split_before_reply_of_its_bundle(serve: Serve) -> None:
    """The server must know the given-away input before it commits the remaining input."""
    served, harness = running(serve, splits=[BundleSplit(0, 1)])
    served.tell(SplitRequest(Attempt(7, 1), 0.5))
    assert harness.asked_to_split.wait(SECONDS)
    harness.go_on.set()
    assert served.channel.said.empty()
    harness.split_now.set()
    split, reply = served.channel.next(), served.channel.next()
    assert isinstance(split, SplitReply) and len(split.done.residuals) == 1
    assert isinstance(reply, BundleReply)


@pytest.mark.parametrize("attempt", [Attempt(7, 2), Attempt(8, 1)])
def test_worker_process_splits_only_the_running_bundle(serve: Serve, attempt: Attempt) -> None:
    served, harness = running(serve, splits=[BundleSplit(0, 1)])
    harness.split_now.set()
    served.tell(SplitRequest(attempt, 0.5))
    done = served.channel.next().done
    assert ((done.bundle, done.attempt), done.residuals) == ((attempt.bundle, attempt.attempt), ())
    assert harness.asked == []
    harness.go_on.set()


@pytest.mark.parametrize("embedded", [False, True], ids=["in another's process", "here"])
def test_abandoned_bundle_of_loopback_client_stops_without_kill(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, embedded: bool
) -> None:
    monkeypatch.setattr(LocalBundle, "is_embedded", embedded)
    served, harness = running(serve, splits=[BundleSplit(0, 1)])
    harness.split_now.set()
    served.tell(AbandonBundle())
    # The process handles requests in order: it answers this request, about a bundle that doesn't
    # run, after the first.
    served.tell(SplitRequest(Attempt(8, 1), 0.5))
    assert served.channel.next().done.residuals == ()
    assert harness.asked == ([] if embedded else [(0.0, 3)])
    harness.go_on.set()


@pytest.mark.parametrize("command", [LeaveLoop(), AbandonBundle()])
def test_scheduler_loop_that_is_ended_before_start_runs_no_bundle(
    serve: Serve, tmp_path: Path, command: FromServer
) -> None:
    """Fetching the files of the loop can take seconds, and the server requests the end only once."""
    rig = Rig(tmp_path / "server", READING, {"read": lambda _: {}}, loop_bytes=1 << 20)
    rig.begin()
    rig.open_lanes()
    loop = rig.workers[0].pending.popleft()
    assert isinstance(loop, RunLoop)
    served = serve(FakeHarness(nothing), READING)
    fetching, fetched = threading.Event(), threading.Event()

    def fetch(_: Any) -> None:
        fetching.set()
        assert fetched.wait(SECONDS)

    served.process._files._cache.fetch_files = fetch  # type: ignore[method-assign]
    served.tell(loop)
    assert fetching.wait(SECONDS)
    served.tell(command)
    fetched.set()
    assert served.channel.next() == LoopReply(loop.loop, (), None, False)
    assert served.environment.built == []
    rig.stop()


def test_split_request_after_end_of_bundle_returns_no_input(serve: Serve) -> None:
    served = serve(FakeHarness(nothing, splits=[BundleSplit(0, 1)]))
    served.tell(order())
    assert isinstance(served.channel.next(), BundleReply)
    served.tell(SplitRequest(Attempt(7, 1), 0.5))
    assert served.channel.next().done.residuals == ()


def test_failing_split_does_not_stop_worker_process(serve: Serve) -> None:
    @attrs.define(eq=False)
    class Lost(Slow):
        def split(self, keep: float, elements: int) -> Any:
            raise HarnessError("the SDK is gone")

    harness = Lost(nothing)
    served = serve(harness)
    served.tell(order())
    assert harness.begun.wait(SECONDS)
    served.tell(SplitRequest(Attempt(7, 1), 0.5))
    assert isinstance(served.channel.next(), SplitReply)
    harness.go_on.set()
    assert isinstance(served.channel.next(), BundleReply)
    served.tell(EndJob())
    assert served.channel.next() == WorkerClosed((("stage", 1),))


def test_finalization_callbacks_run_once_for_committed_bundles(serve: Serve) -> None:
    served = serve(FakeHarness(nothing, finalizes=True))
    for number in (1, 2):
        served.tell(order(number))
        assert served.channel.next().done.finalize
    assert served.harness.finalized == []
    for attempts in ((Attempt(2, 1),), (Attempt(2, 1), Attempt(9, 1), Attempt(1, 1))):
        served.tell(RunFinalizers(attempts))
    served.tell(EndJob())
    assert served.channel.next() == WorkerClosed((("stage", 2),))
    assert served.harness.finalized == ["1-2-1", "1-1-1"]


def test_finalization_callback_store_of_process_has_limited_size(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaiting_commit, "MOST_KEPT", 2)
    served = serve(FakeHarness(nothing, finalizes=True))
    for number in range(4):
        served.tell(order(number))
        served.channel.next()
    served.tell(RunFinalizers(tuple(Attempt(number, 1) for number in range(4))))
    served.tell(EndJob())
    served.channel.next()
    assert served.harness.finalized == ["1-2-1", "1-3-1"]


def test_teardown_waits_for_running_bundle(serve: Serve) -> None:
    served, harness = running(serve)
    served.tell(EndJob())
    threading.Event().wait(0.1)
    assert served.environment.closed == 0
    harness.go_on.set()
    assert isinstance(served.channel.next(), BundleReply)
    assert served.channel.next() == WorkerClosed((("stage", 1),))
    assert served.environment.closed == 1
    served.process.close()
    assert served.environment.closed == 1


def test_worker_process_after_teardown_stays_until_end_of_job(serve: Serve) -> None:
    served = serve(FakeHarness(nothing))
    served.tell(order())
    served.channel.next()
    served.tell(TearDownDoFns())
    wait_until(lambda: served.environment.closed != 0, SECONDS)
    served.tell(EndJob())
    assert served.channel.next() == WorkerClosed((("stage", 1),))
    assert served.environment.closed == 1


def test_process_reports_progress_of_long_bundle(serve: Serve) -> None:
    served, harness = running(serve, processed=1.5)
    progress = served.channel.next()
    assert (progress.attempt, progress.fraction) == (Attempt(7, 1), 0.5)
    assert progress.elapsed >= 20
    harness.go_on.set()
    while not isinstance(served.channel.next(), BundleReply):
        pass


def test_log_records_of_process_are_sent_to_server(serve: Serve) -> None:
    served = serve(FakeHarness(nothing))
    record = LogRecord(Severity.INFO, 1, "text")
    served.process.stages.log_records([record])
    assert served.channel.next() == LogBatch((record,))


def test_temporary_folder_of_process_is_in_job_folder_and_restored(tmp_path: Path) -> None:
    usual = tempfile.gettempdir()
    folder = tmp_path / "job"
    with redirect_temporary_files(folder):
        assert Path(tempfile.mkdtemp()).parent == folder
    assert tempfile.gettempdir() == usual


def test_temporary_folder_is_restored_after_error(tmp_path: Path) -> None:
    usual = tempfile.gettempdir()
    with pytest.raises(RuntimeError), redirect_temporary_files(tmp_path):
        raise RuntimeError
    assert tempfile.gettempdir() == usual
