"""Tests of the plan of a replay: marks and data are one entry, and each problem is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.window import FixedWindows, IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_data.rows.columns import decode_batch
from beam_runner_data.rows.refs import InlineRows
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Drain, Output, Residual
from beam_runner_model.facts import DataStatistics
from beam_runner_model.quarantine import QuarantinedUnitKind
from beam_runner_model.replays import ReplayProblem, ReplayReport, UnreplayedUnits
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_runtime.bundles.inputs import read_element_chunks
from failing_streams import CountPerKey, NumberSource
from ledger_jobs import Job
from plans import make_plan

from beam_runner_driver.ledger.journal_codec import DecodedJournal, decode_entries, encode_entries
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import QuarantinedFile, QuarantineState, ReplayedUnits
from beam_runner_driver.quarantine.quarantine_rows import QuarantineRow
from beam_runner_driver.quarantine.replay import plan_replay
from beam_runner_driver.updates.quarantine_successors import transfer_quarantine_records

FILE = "job-1/0000000007-4.parquet"
WINDOW = 10
LATENESS = 20
NOW = 100
"""Watermark of the source in seconds."""


def build_windows(pipeline: beam.Pipeline) -> None:
    numbers = pipeline | beam.Create([1]) | beam.ParDo(NumberSource())
    windowed = numbers | beam.WindowInto(FixedWindows(WINDOW), allowed_lateness=LATENESS)
    windowed | "Deal" >> beam.Reshuffle() | "Fails" >> beam.Map(lambda number: number)


def build_keys(pipeline: beam.Pipeline) -> None:
    numbers = pipeline | beam.Create([1]) | beam.ParDo(NumberSource())
    pairs = numbers | beam.Map(lambda n: (n, n)).with_output_types(tuple[int, int])
    windowed = pairs | beam.WindowInto(FixedWindows(WINDOW), allowed_lateness=LATENESS)
    windowed | "Count" >> beam.ParDo(CountPerKey())


def build_text_keys(pipeline: beam.Pipeline) -> None:
    numbers = pipeline | beam.Create([1]) | beam.ParDo(NumberSource())
    pairs = numbers | beam.Map(lambda n: (str(n), n)).with_output_types(tuple[str, int])
    windowed = pairs | beam.WindowInto(FixedWindows(WINDOW), allowed_lateness=LATENESS)
    windowed | "Count" >> beam.ParDo(CountPerKey())


def find_stage(plan: JobPlan, identity: str) -> StagePlan:
    """Returns the stage with an identity."""
    (found,) = (one for one in plan.stages.values() if one.identity == identity)
    return found


def coder_of(stage: StagePlan) -> Any:
    """Returns the coder of the windowed values that a stage reads."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
    source = descriptor.transforms[stage.spec.input.transform_id]
    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(source.spec.payload)
    return PipelineContext(descriptor).coders[port.coder_id].get_impl()


class ReplayingJob:
    """Job whose source has the watermark `NOW`, with quarantined (failed) elements of one stage.

    Args:
        build: function that makes the pipeline.
        identity: identity of the stage.
        times: event times of the elements in seconds.
    """

    def __init__(self, build: Any, identity: str, *times: int) -> None:
        self.plan = make_plan(build)
        self.stage = find_stage(self.plan, identity)
        self.job = Job(self.plan)
        self.units = tuple(map(self.make_unit, times, range(len(times))))
        self.ledger.quarantine.files[FILE] = QuarantinedFile(self.stage.identity, len(times))
        self._advance_source()

    @property
    def ledger(self) -> JobLedger:
        return self.job.ledger

    def make_unit(self, time: int, row: int) -> QuarantineRow:
        start = time // WINDOW * WINDOW
        value = (time, time) if self.stage.stateful else time
        windowed = WindowedValue(value, Timestamp(time), (IntervalWindow(start, start + WINDOW),))
        encoded = coder_of(self.stage).encode_nested(windowed)
        return QuarantineRow(FILE, row, QuarantinedUnitKind.ELEMENT, "Fails", encoded)

    def _advance_source(self) -> None:
        """Commits bundles until only a residual of the source is left, with the watermark `NOW`."""
        while bundles := self.ledger.open_bundles:
            for bundle in bundles:
                self._commit(bundle)

    def _commit(self, bundle: Bundle) -> None:
        stage = self.plan.stages[bundle.stage]
        outputs: tuple[Output, ...] = ()
        residuals: tuple[Residual, ...] = ()
        if stage.splittable:
            residuals = (Residual(bundle.inputs[0].data, delay=60_000, watermark=NOW * 1000),)
        else:
            facts = DataStatistics(1, 10, bundle.inputs[0].data.facts.min_timestamp)
            data = Data(InlineRows(f"made-{bundle.number}", ()), facts)
            outputs = tuple(Output(one, data) for one in dict.fromkeys(stage.outputs.values()))
        self.job.apply(BundleDone(bundle.number, bundle.attempt, outputs, residuals))

    def replay(self, **options: bool) -> tuple[ReplayedUnits | None, ReplayReport]:
        return plan_replay(self.ledger, self.units, **options)


def values_of(bundle: Bundle, stage: StagePlan) -> Iterator[Any]:
    """Yields the windowed values that a bundle reads."""
    coder = coder_of(stage)
    if bundle.shard is not None:
        for one in bundle.inputs:
            assert isinstance(one.data.ref, InlineRows)
            for _, data in one.data.ref.rows:
                for value in decode_batch(data).column("value").to_pylist():
                    yield coder.decode_nested(value)
        return
    for chunk in read_element_chunks(lambda ref: ref.rows, bundle.inputs):
        assert chunk.count == 1
        yield coder.decode_nested(bytes(chunk.data))


@pytest.mark.parametrize(
    ("build", "identity"), [(build_windows, "deal:Deal"), (build_keys, "keyed:Count")]
)
def test_replay_feeds_quarantined_elements_into_their_stage_once(build: Any, identity: str) -> None:
    job = ReplayingJob(build, identity, 104, 105, 117)
    entry, report = job.replay()
    assert report == ReplayReport(replayed=3)
    assert entry is not None
    (same,) = decode_entries(encode_entries((entry,)))
    job.job.apply(same)
    bundles = job.job.open(job.stage.stage_id)
    found = [value for bundle in bundles for value in values_of(bundle, job.stage)]
    assert sorted(value.timestamp.seconds() for value in found) == [104, 105, 117]
    assert all(len(value.windows) == 1 for value in found)
    if identity == "keyed:Count":
        assert {value.value for value in found} == {(n, n) for n in (104, 105, 117)}
        assert len({bundle.shard for bundle in bundles}) == len(bundles)
    again = JobLedger.from_state(DecodedJournal(job.ledger.encode_snapshot()).ledger)
    assert plan_replay(again, job.units) == (None, ReplayReport(earlier=3))


def test_replayed_late_element_holds_watermark_of_its_stage() -> None:
    job = ReplayingJob(build_windows, "deal:Deal", 95)
    entry, report = job.replay()
    assert report == ReplayReport(replayed=1, late=1)
    job.job.apply(entry)
    stage = job.ledger.create_stage_report(job.stage.stage_id)
    assert (stage.input_watermark, stage.output_watermark) == (NOW * 1000, NOW * 1000)
    (bundle,) = job.job.open(job.stage.stage_id)
    assert bundle.inputs[0].data.facts.min_timestamp == 95_000


@pytest.mark.parametrize(
    ("build", "identity"), [(build_windows, "deal:Deal"), (build_keys, "keyed:Count")]
)
def test_replay_leaves_elements_of_expired_windows_in_quarantine(build: Any, identity: str) -> None:
    """The window that ends at 80 s expires when the watermark passes its last timestamp and 20 s."""
    job = ReplayingJob(build, identity, 79, 80)
    entry, report = job.replay()
    expired = UnreplayedUnits(ReplayProblem.EXPIRED, "Fails", 1)
    assert report == ReplayReport(replayed=1, late=1, problems=(expired,))
    assert entry is not None
    assert entry.rows == ((FILE, 1),)
    _, with_expired = job.replay(expired=True)
    assert with_expired.replayed == (1 if identity == "keyed:Count" else 2)


def refused(job: ReplayingJob, problem: ReplayProblem, detail: str = "") -> bool:
    """Returns whether a replay names this problem for all elements."""
    count = len(job.units)
    found = UnreplayedUnits(problem, "Fails", count, detail)
    return job.replay() == (None, ReplayReport(problems=(found,)))


def test_quarantine_replay_of_groups_and_timers_is_refused() -> None:
    job = ReplayingJob(build_windows, "deal:Deal", 100)
    job.units = tuple(attrs.evolve(one, kind=QuarantinedUnitKind.GROUP) for one in job.units)
    assert refused(job, ReplayProblem.NOT_AN_ELEMENT, "group")


def test_quarantine_replay_into_draining_job_is_refused() -> None:
    job = ReplayingJob(build_windows, "deal:Deal", 100)
    job.job.apply(Drain())
    assert refused(job, ReplayProblem.STEP_ENDED)


def continue_with(job: ReplayingJob, plan: JobPlan, stages: dict[str, str]) -> None:
    """Replaces a job's quarantine records by the records that a job with another plan continues."""
    files = transfer_quarantine_records(job.ledger.quarantine.files, job.plan, plan, stages)
    job.ledger.quarantine = QuarantineState(files=files)


def test_replay_of_elements_of_removed_step_is_refused() -> None:
    job = ReplayingJob(build_windows, "deal:Deal", 100)
    continue_with(job, job.plan, {})
    assert refused(job, ReplayProblem.NO_STEP)


def test_replay_of_elements_of_changed_coder_is_refused_permanently() -> None:
    job = ReplayingJob(build_keys, "keyed:Count", 100)
    stages = {job.stage.identity: job.stage.identity}
    continue_with(job, job.plan, stages)
    assert job.replay()[1].replayed == 1
    continue_with(job, make_plan(build_text_keys), stages)
    (problem,) = job.replay()[1].problems
    assert problem.problem is ReplayProblem.CODER_CHANGED
    assert " -> " in problem.detail
    continue_with(job, job.plan, stages)
    assert job.replay()[1].problems == (problem,)


def test_quarantine_replay_of_damaged_element_is_refused() -> None:
    job = ReplayingJob(build_windows, "deal:Deal", 100)
    job.units = tuple(attrs.evolve(one, encoded=one.encoded[:-1]) for one in job.units)
    with pytest.raises(ValueError, match="within an element"):
        job.replay()
