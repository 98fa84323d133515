"""Tests that transforms of Spark's readers and writers become separate stages, or are refused."""

from __future__ import annotations

import typing
from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.portability.api import beam_runner_api_pb2
from beam_runner_driver.ledger.scheduling import make_root_outputs, make_scheduler_graph
from beam_runner_engine.scheduler.commands import FinishJob, Outcome
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Drain, Output, Residual, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_model.facts import DataStatistics
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_urns import spark as urns
from beam_spark_io import ReadFromSpark, ReadStreamFromSpark, WriteToSpark, primitives

from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.plan import TruncationPlan
from beam_runner_planner.table_specs import StreamSource, TableSource, TableTarget
from beam_runner_planner.translate import plan_job


class Row(typing.NamedTuple):
    id: int


def copied(p: beam.Pipeline) -> Any:
    return p | ReadFromSpark("csv", path="in", schema=Row) | WriteToSpark("csv", "out", schema=Row)


def read(p: beam.Pipeline) -> Any:
    return p | beam.Impulse() | "It" >> primitives.read_table(TableSource("csv", path="in"))


@pytest.mark.parametrize("flags", [samples.EMBEDDED, samples.EXTERNAL])
def test_table_transforms_get_separate_stages_with_complete_input(flags: tuple[str, ...]) -> None:
    plan = plan_job(samples.job_of(samples.built(copied, *flags)))
    tables = {s.stage_id: s.table.urn for s in plan.stages.values() if s.table is not None}
    assert sorted(tables.values()) == sorted(urns.ALL - {urns.READ_STREAM})
    assert plan.has_tables
    for stage in make_scheduler_graph(plan, sections=True).stages:
        assert (stage.name in tables) <= (stage.whole_input and not stage.spans)
    if flags is samples.EMBEDDED:
        assert {
            spec.stage_id for spec in plan.list_embedded_specs()
        } == plan.stages.keys() - tables.keys()


def stream(p: beam.Pipeline) -> Any:
    return p | "It" >> ReadStreamFromSpark("rate") | beam.Map(print)


def test_spark_stream_is_read_in_micro_batches_until_drain() -> None:
    plan = plan_job(samples.job_of(samples.proto_of(stream)))
    (read,) = (s for s in plan.stages.values() if s.table is not None)
    assert plan.streaming
    assert plan.list_source_stage_ids() == {read.stage_id}
    assert read.truncation == TruncationPlan(None, endless=True)
    (spec,) = (s for s in make_scheduler_graph(plan).stages if s.name == read.stage_id)
    # A running micro-batch isn't split, because a micro-batch is short.
    assert spec.splittable and spec.whole_input


def some(ref: str, time: int = MIN_TIMESTAMP) -> Data:
    return Data(ref, DataStatistics(1, 1, time, None, None))


def test_spark_stream_positions_advance_watermark_and_drain_truncates_last_position() -> None:
    plan = plan_job(samples.job_of(samples.proto_of(stream)))
    scheduler = Scheduler(make_scheduler_graph(plan))
    scheduler.handle_event(Start(0, make_root_outputs(plan)))
    (impulse,) = scheduler.open_bundles
    (begin,) = plan.stages[impulse.stage].outputs.values()
    scheduler.handle_event(BundleDone(impulse.number, 1, (Output(begin, some("nothing")),)))
    (turn,) = scheduler.open_bundles
    (rows,) = plan.stages[turn.stage].outputs.values()
    left = Residual(some("position"), 1_000, 11_000, estimator_state=14_000)
    scheduler.handle_event(
        BundleDone(turn.number, 1, (Output(rows, some("rows", 5_000)),), (left,))
    )
    (reader,) = scheduler.open_bundles
    assert scheduler.create_stage_report(reader.stage).output_watermark == 5_000
    scheduler.handle_event(BundleDone(reader.number, 1))
    assert scheduler.create_stage_report(reader.stage).output_watermark == 11_000
    assert scheduler.open_bundles == ()
    scheduler.handle_event(Drain())
    (last,) = scheduler.open_bundles
    assert (last.inputs[0].truncate, last.inputs[0].estimator_state) == (True, 14_000)
    assert FinishJob(Outcome.DRAINED) in scheduler.handle_event(BundleDone(last.number, 1))


def test_spark_stream_declared_as_bounded_is_refused() -> None:
    proto = samples.proto_of(stream)
    for pcollection in proto.components.pcollections.values():
        pcollection.is_bounded = beam_runner_api_pb2.IsBounded.BOUNDED
    with pytest.raises(InvalidPipeline, match="'It/Spark' reads a stream, but its output is"):
        plan_job(samples.job_of(proto))


def test_spark_stream_read_with_input_other_than_impulse_is_refused() -> None:
    def told(p: beam.Pipeline) -> Any:
        position = p | beam.Create([b"elsewhere"]) | beam.Reshuffle()
        return position | "It" >> primitives.read_stream(StreamSource("rate"))

    with pytest.raises(
        InvalidPipeline, match="'It' reads a stream, but its input isn't an Impulse"
    ):
        plan_job(samples.job_of(samples.proto_of(told)))


@pytest.mark.parametrize("between", [None, TableTarget("csv", "elsewhere")])
def test_publication_of_files_not_written_by_staging_step_is_refused(
    between: TableTarget | None,
) -> None:
    def told(p: beam.Pipeline) -> Any:
        names = p | beam.Create([b'{"folder": "/home", "files": ["mine"]}']) | beam.Reshuffle()
        if between is not None:
            names = names | "Stage" >> primitives.stage_batches(between)
        return names | "It" >> primitives.publish_staged_files(TableTarget("csv", "out"))

    with pytest.raises(InvalidPipeline, match="'It' publishes written files, but its input"):
        plan_job(samples.job_of(samples.proto_of(told)))


def test_invalid_table_payload_is_refused() -> None:
    proto = samples.proto_of(read)
    for transform in proto.components.transforms.values():
        if transform.spec.urn == urns.READ:
            transform.spec.payload = b"[]"
    with pytest.raises(
        InvalidPipeline,
        match="'It': the payload of the transform doesn't describe a table to be read",
    ):
        plan_job(samples.job_of(proto))


def reshuffled(p: beam.Pipeline) -> Any:
    return read(p) | beam.Reshuffle() | beam.Map(len)


def as_a_side_input(p: beam.Pipeline) -> Any:
    return p | beam.Create([1]) | beam.Map(lambda one, rows: one, beam.pvalue.AsList(read(p)))


@pytest.mark.parametrize("build", [reshuffled, as_a_side_input])
def test_table_input_shared_with_side_input_is_refused(build: samples.Build) -> None:
    with pytest.raises(
        UnsupportedPipeline, match=r"or a side input without a transform between \(in 'It'\)"
    ):
        plan_job(samples.job_of(samples.proto_of(build)))


def test_table_transform_with_non_bytes_elements_is_refused() -> None:
    def numbers(p: beam.Pipeline) -> Any:
        return p | beam.Create([1]) | "It" >> primitives.read_table(TableSource("csv", path="in"))

    with pytest.raises(InvalidPipeline, match="'It' must have inputs and outputs of bytes"):
        plan_job(samples.job_of(samples.proto_of(numbers)))
