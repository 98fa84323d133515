"""Property tests of the scheduler's guarantees, with random jobs, order, failures, splits, drains
and restarts.

The default is about 100 runs; `BEAM_ENGINE_RUNS=10000` sets more. A failure prints the steps and a
seed to reproduce the run.
"""

from __future__ import annotations

import os
import pickle

import pytest
from beam_runner_model.failures import JobFailureKind
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    Abort,
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    Event,
    FailureKind,
    Hold,
    Output,
    Progress,
    Residual,
    SectionRefused,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.transitions import Phase

from .graphs import Job, jobs

FAILURES = (
    *(None,) * 4,
    *(FailureKind.USER, FailureKind.OUTSIDE, FailureKind.UNAVAILABLE) * 3,
    FailureKind.PERMANENT,
)
"""Permanent failures are rare, because each one ends the job."""
RUNS = int(os.environ.get("BEAM_ENGINE_RUNS", "100"))


class JobRun(RuleBasedStateMachine):
    """Run of one job by a simulated caller that acts in random order and fails sometimes."""

    @initialize(job=jobs())
    def begin(self, job: Job) -> None:
        self.job, self.host = job, job.host
        self.saved: tuple[int, bytes] | None = None
        self.stopped = False
        self.host.start(job.roots)

    def pick(self, number: int) -> int:
        return list(self.host.open)[number % len(self.host.open)]

    @rule(which=st.integers(0, 20), most=st.integers(1, 3), twice=st.booleans())
    def complete(self, which: int, most: int, twice: bool) -> None:
        if not self.host.open:
            return
        self.host.complete(self.pick(which), most)
        if twice:
            self.repeat(self.host.log[-1])

    @rule(which=st.integers(0, 20), kind=st.sampled_from(FAILURES))
    def fail(self, which: int, kind: FailureKind | None) -> None:
        if kind is not None and self.host.open:
            self.host.fail(self.pick(which), kind)
            self.repeat(self.host.log[-1])

    @rule(which=st.integers(0, 20))
    def refuse(self, which: int) -> None:
        sections = [number for number, bundle in self.host.open.items() if bundle.parts]
        if sections and which % 3 == 0:
            self.host.refuse(sections[which % len(sections)])
            self.repeat(self.host.log[-1])

    @rule(
        which=st.integers(0, 20),
        fraction=st.sampled_from((0.0, 0.1, 0.5, 1.0)),
        elapsed=st.sampled_from((0, 5_000, 20_000)),
        keep=st.none() | st.integers(0, 3),
    )
    def progress(self, which: int, fraction: float, elapsed: int, keep: int | None) -> None:
        """Sends a progress report; if the scheduler then requests a split, the bundle can answer
        immediately.
        """
        if not self.host.open:
            return
        number = self.pick(which)
        self.host.progress(number, fraction, elapsed)
        if keep is not None and number in self.host.asked:
            self.host.answer_split(number, keep)

    @rule(which=st.integers(0, 20), keep=st.integers(0, 3))
    def split(self, which: int, keep: int) -> None:
        if self.host.asked:
            asked = list(self.host.asked)
            self.host.answer_split(asked[which % len(asked)], keep)

    @rule(ahead=st.integers(-3, 15))
    def tick(self, ahead: int) -> None:
        self.host.tick(self.host.now + ahead)

    @rule(which=st.sets(st.integers(0, 6)))
    def hold(self, which: set[int]) -> None:
        """Holds some stages, and releases the stages that the previous hold held."""
        if self.host.end is None and not any(stage.spans for stage in self.host.graph.stages):
            names = [spec.name for spec in self.host.graph.stages]
            self.host.handle(Hold(tuple(names[one] for one in sorted(which) if one < len(names))))

    @rule(which=st.integers(0, 6), element=st.integers(0, 20))
    def redeliver(self, which: int, element: int) -> None:
        """Gives a stage a copy of an element that the stage has processed."""
        if self.host.scheduler.phase is not Phase.RUNNING:
            return
        specs = [
            spec
            for spec in self.host.graph.stages
            if not (spec.spans or spec.splittable or spec.whole_input)
            and self.host.processed[spec.name]
            and self.host.watermarks[spec.name][2] < MAX_TIMESTAMP
        ]
        if not specs:
            return
        spec = specs[which % len(specs)]
        known = {one.ident: one for one in self.host.elements_for(spec)}
        done = [known[ident] for ident, _ in self.host.processed[spec.name]]
        like = done[element % len(done)]
        if self.host.late_sources or like.time >= max(self.host.watermarks[spec.name]):
            self.host.redeliver(spec.name, like)

    @rule(what=st.sampled_from((None,) * 20 + (Drain(),) * 4 + (Cancel(), Abort("lost"))))
    def stop(self, what: Drain | Cancel | Abort | None) -> None:
        if what is not None:
            self.stopped = True
            self.host.handle(what)

    @rule()
    def save(self) -> None:
        self.saved = len(self.host.log), pickle.dumps(self.host.scheduler)

    @rule()
    def restart(self) -> None:
        self.host.scheduler = pickle.loads(pickle.dumps(self.host.scheduler))

    @rule()
    def lose(self) -> None:
        if self.host.end is None:
            self.host.lose()

    @rule(which=st.integers(0, 60))
    def send_late(self, which: int) -> None:
        """Repeats an event of a closed bundle or of an old attempt."""
        late = [
            event
            for event in self.host.log
            if isinstance(event, BundleDone | BundleFailed | SectionRefused | Progress | SplitDone)
            and (
                event.bundle not in self.host.open
                or self.host.open[event.bundle].attempt > event.attempt
            )
        ]
        if late:
            self.repeat(late[which % len(late)])

    def repeat(self, event: Event) -> None:
        before = pickle.dumps(self.host.scheduler)
        assert self.host.scheduler.handle_event(event) == ()
        assert pickle.dumps(self.host.scheduler) == before

    @rule(which=st.integers(0, 20))
    def send_illegal(self, which: int) -> None:
        if self.host.end is not None:
            return
        illegal: list[Event] = [
            Start(),
            BundleDone(1_000_000, 1),
            BundleFailed(-1, 1, "no such bundle"),
        ]
        if self.host.scheduler.phase is Phase.RUNNING:
            illegal.append(Hold(("no such stage",)))
        for number, bundle in self.host.open.items():
            spec = self.host.stages[bundle.stage]
            illegal += [
                BundleDone(number, bundle.attempt + 1),
                Progress(number, bundle.attempt, 2.0, 0),
                BundleDone(
                    number,
                    bundle.attempt,
                    (Output("elsewhere", self.host.data((self.host.element(0, frozenset()),))),),
                ),
            ]
            if bundle.parts:
                rest = Residual(self.host.data((self.host.element(0, frozenset()),)))
                illegal.append(BundleDone(number, bundle.attempt, residuals=(rest,)))
                illegal.append(BundleDone(number, bundle.attempt, summary=EMPTY_SUMMARY))
            else:
                illegal.append(SectionRefused(number, bundle.attempt, "it is not one"))
            if spec.is_keyed and not bundle.parts:
                illegal.append(BundleDone(number, bundle.attempt))
            if number not in self.host.asked:
                illegal.append(SplitDone(number, bundle.attempt))
        for number, paused in self.host.paused.items():
            attempt = paused.bundle.attempt + 1
            illegal.append(BundleDone(number, attempt))
            illegal.append(BundleFailed(number, attempt, "it has not begun"))
            illegal.append(SplitDone(number, attempt))
        event = illegal[which % len(illegal)]
        asked = isinstance(event, Progress) and event.bundle in self.host.asked
        if asked:
            return
        before = pickle.dumps(self.host.scheduler)
        with pytest.raises(IllegalEvent, match=type(event).__name__):
            self.host.scheduler.handle_event(event)
        assert pickle.dumps(self.host.scheduler) == before

    def teardown(self) -> None:
        if not hasattr(self, "host"):
            return
        host = self.host
        if host.scheduler.held_stages:
            host.handle(Hold())
        if self.job.unbounded and host.end is None:
            host.handle(Drain())
        host.run_to_end(2_000)
        host.check_end()
        self.check_outcome()
        self.check_replay()

    def check_outcome(self) -> None:
        end = self.host.end
        if isinstance(end, FinishJob):
            assert self.stopped or self.job.unbounded or end.outcome is Outcome.DONE
            return
        assert isinstance(end, FailJob)
        if end.kind is JobFailureKind.STUCK:
            leaking = [name for (name, _), keep in self.host.keeps.items() if keep.leak is not None]
            assert any(
                f"stage {name!r} holds its output watermark" in end.reason for name in leaking
            )
        elif end.reason != "lost":
            assert end.stage is not None
            assert end.causes[-1] in end.reason or end.causes
            failures = [event for event in self.host.log if isinstance(event, BundleFailed)]
            assert set(end.causes) <= {event.cause for event in failures}
            of_culprit = [event for event in failures if event.bundle == failures[-1].bundle]
            assert 1 <= end.attempts <= len(of_culprit)

    def check_replay(self) -> None:
        """Checks that replaying the log produces the same commands, from the start and from a
        snapshot.
        """
        host = self.host
        again = host.new_scheduler()
        assert [again.handle_event(event) for event in host.log] == host.answers
        if self.saved is not None:
            start, snapshot = self.saved
            again = pickle.loads(snapshot)
            assert [again.handle_event(event) for event in host.log[start:]] == host.answers[start:]


TestJobRun = pytest.mark.timeout(300 + RUNS)(JobRun.TestCase)
TestJobRun.settings = settings(
    max_examples=RUNS,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
