"""Tests of internal APIs of Beam and PySpark that the runner uses, and that `tools/check_versions.py` can't check.

The tool checks names and signatures. These tests check attributes of instances, names that Beam
looks up at each use, so that the runner can replace them, and contents of pickled functions.
Several of these would break without an error.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners import common
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.worker import bundle_processor, data_sampler, operations, statesampler
from apache_beam.testing import test_stream
from apache_beam.transforms import core, sideinputs, userstate, window
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_embedded.assign_windows import AssignWindows
from beam_runner_embedded.combine_tables import TABLE_BYTES, MemoryBoundedCombine
from beam_runner_embedded.dofn_runners import record_created_runners
from beam_runner_embedded.edges import StageEdges, parse_descriptor
from beam_runner_embedded.inspections import cache_inspections
from beam_runner_embedded.par_do import ElementRunParDo
from beam_runner_embedded.plain_dofns import _MAPS, _requests_parameter
from beam_runner_embedded.processor import StageProcessor
from beam_runner_embedded.runs import ElementRunFlatten
from beam_runner_embedded.state_handler import StateHandler
from beam_runner_embedded.stateful_par_do import StatefulParDo
from beam_runner_model.jobs import JobSpec
from beam_runner_planner.scripted_windows import _SIGNS
from beam_runner_planner.side_inputs import contains_pickled_name
from beam_runner_planner.translate import plan_job
from beam_runner_urns import transforms
from pyspark import RDD, SparkConf, SparkContext
from pyspark.rdd import PipelinedRDD
from pyspark.sql import SparkSession

COUNT = userstate.CombiningValueStateSpec("count", beam.coders.VarIntCoder(), sum)


class Counting(beam.DoFn):
    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> None:
        count.add(1)


class Plain(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield element


class NoSideInputs:
    """A reader for stages that read none."""

    changing = False


def processors(build: Any) -> list[StageProcessor]:
    """Returns Beam's execution trees of all stages of a pipeline, as the embedded harness makes them."""
    options = PipelineOptions(["--environment_type=beam:env:embedded_python:v1"])
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    proto = PortableRunner.get_proto_pipeline(pipeline, options)
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
    plan = plan_job(JobSpec("job-1", "name", proto.SerializeToString(), {}, "{}", {}, "host:1"))
    found = []
    for stage in plan.stages.values():
        descriptor = parse_descriptor(stage.spec)
        handler = StateHandler(NoSideInputs(), stage.spec.name)  # type: ignore[arg-type]
        found.append(
            StageProcessor(
                descriptor, handler, StageEdges.from_stage(stage.spec), None, TABLE_BYTES
            )
        )
    return found


def everything(pipeline: beam.Pipeline) -> None:
    pairs = pipeline | beam.Create([("a", 1)]) | beam.Map(lambda pair: pair)
    fixed = pairs | beam.WindowInto(window.FixedWindows(10))
    _ = fixed | beam.CombinePerKey(sum) | "after" >> beam.Map(lambda pair: pair)
    _ = pairs | beam.ParDo(Counting())


@pytest.fixture(scope="module")
def made() -> dict[type, operations.Operation]:
    ops = [op for processor in processors(everything) for op in processor.ops.values()]
    return {type(op): op for op in ops}


@pytest.mark.parametrize(
    ("ours", "looked_up"),
    [
        (ElementRunParDo, "bundle_processor._create_pardo_operation"),
        (StatefulParDo, "bundle_processor._create_pardo_operation"),
        (AssignWindows, "bundle_processor._create_pardo_operation"),
        (MemoryBoundedCombine, "operations.PGBKCVOperation"),
    ],
)
def test_beam_creates_the_operation_classes_that_the_runner_registers(
    made: dict[type, Any], ours: type, looked_up: str
) -> None:
    assert ours in made, f"Beam does not look up {looked_up} any more when it makes an operation"


def test_beam_reads_the_flatten_operation_class_from_its_module() -> None:
    creator, _ = bundle_processor.BeamTransformFactory._known_urns[transforms.FLATTEN]
    assert {"operations", "FlattenOperation"} <= set(creator.__code__.co_names)
    assert issubclass(ElementRunFlatten, operations.FlattenOperation)


def test_beam_creates_no_operation_class_that_the_runner_replaces(made: dict[type, Any]) -> None:
    stock = (operations.DoOperation, operations.FlattenOperation, operations.PGBKCVOperation)
    assert [kind.__name__ for kind in made if kind in stock] == []


def test_beam_operation_setup_reads_the_dofn_runner_class_from_its_module() -> None:
    (processor, *_) = processors(lambda p: p | beam.Create([1]) | beam.ParDo(Plain()))
    with record_created_runners() as runners:
        processor.set_up_operations()
    assert runners, "operations do not look up common.DoFnRunner any more"
    assert all(isinstance(each.fn, beam.DoFn) for each in runners)


def test_beam_calls_the_dofn_inspection_functions_through_their_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    usual_arguments, usual_specs = core.get_function_arguments, userstate.get_dofn_specs

    def arguments(obj: Any, name: str) -> Any:
        asked.append("core.get_function_arguments")
        return usual_arguments(obj, name)

    def specs(fn: Any) -> Any:
        asked.append("userstate.get_dofn_specs")
        return usual_specs(fn)

    monkeypatch.setattr(core, "get_function_arguments", arguments)
    monkeypatch.setattr(userstate, "get_dofn_specs", specs)
    with cache_inspections():
        common.DoFnSignature(Counting())
    assert set(asked) == {"core.get_function_arguments", "userstate.get_dofn_specs"}


def test_beam_dofn_parameters_are_recognized_by_class() -> None:
    asked = {name: value for name, value in vars(beam.DoFn).items() if name.endswith("Param")}
    assert len(asked) >= 10
    assert [name for name, value in asked.items() if not _requests_parameter(value)] == []


def test_beam_dofn_reports_whether_it_processes_batches() -> None:
    assert Plain()._process_defined
    assert not Plain()._process_batch_defined


def pair_up(value: int, other: int = 2) -> tuple[int, int]:
    return value, other


@pytest.mark.parametrize("made", [beam.Map(lambda value: (value, 2)), beam.Map(pair_up, 2)])
def test_beam_map_is_recognized_by_its_code_object(made: beam.ParDo) -> None:
    mapped = made.fn.process
    assert any(mapped.__code__ is each for each in _MAPS)
    ((function,),) = [[cell.cell_contents for cell in mapped.__closure__]]
    assert function(1) == (1, 2)


def test_beam_lifted_combine_operation_exposes_its_combine_function(made: dict[type, Any]) -> None:
    op = made[MemoryBoundedCombine]
    (accumulator,) = op.combine_fn_compact(op.combine_fn_add_input([1], 2))
    assert accumulator == 3
    assert op.combine_fn.add_inputs([1], [2, 3]) == [1, 2, 3]
    assert (op.is_default_windowing, op.timestamp_combiner) == (False, None)
    assert op.combine_fn._fn is sum


class Finalized(beam.DoFn):
    def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> None:
        if element is None:
            raise ValueError("no element")


@pytest.fixture
def finalized() -> operations.DoOperation:
    """Returns the operation of a DoFn after its setup."""
    found = []
    for processor in processors(lambda p: p | beam.Create([1]) | "here" >> beam.ParDo(Finalized())):
        processor.set_up_operations()
        found += [op for op in processor.ops.values() if str(op.name_context.step_name) == "here"]
    (op,) = found
    return op


def test_beam_bundle_finalization_calls_a_replaceable_python_method(
    finalized: operations.DoOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    param = core._BundleFinalizerParam()
    param.register(len)
    assert param._callbacks == [len]
    asked: list[Any] = []
    collect = lambda param: asked.append(param)  # noqa: E731 - a built-in function is no method
    monkeypatch.setattr(core._BundleFinalizerParam, "finalize_bundle", collect)
    finalized.finalize_bundle()
    assert [type(each) for each in asked] == [core._BundleFinalizerParam]


def test_beam_error_of_a_dofn_names_its_step(finalized: operations.DoOperation) -> None:
    with pytest.raises(ValueError, match="while running 'here'") as caught:
        finalized.process(WindowedValue(None, Timestamp(0), (window.GlobalWindow(),)))
    assert caught.value._tagged_with_step  # type: ignore[attr-defined]
    assert isinstance(caught.value.__context__, ValueError)


def test_beam_frames_of_compiled_code_contain_the_class_name(
    finalized: operations.DoOperation,
) -> None:
    with pytest.raises(ValueError) as caught:
        finalized.process(WindowedValue(None, Timestamp(0), (window.GlobalWindow(),)))
    names = []
    trace = caught.tb
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next  # type: ignore[assignment]
    assert any("DoFnRunner" in name for name in names)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (data_sampler.DataSampler(), "_samplers"),
        (statesampler.StateSampler("prefix", CounterFactory()), "_scoped_state"),
        (cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID"),
        (bundle_processor.BeamTransformFactory, "_known_urns"),
        (beam.coders.Coder, "_known_urns"),
        (SparkContext, "_gateway"),
        (SparkContext, "_jvm"),
        (SparkContext, "_active_spark_context"),
        (SparkSession, "_instantiatedSession"),
        (threading, "_register_atexit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_beam_object_has_the_private_attribute_that_the_runner_uses(where: Any, name: str) -> None:
    assert hasattr(where, name)


@pytest.mark.parametrize(
    ("method", "names"),
    [
        # A section's rows cross the shuffle as in partitionBy, without batches.
        (RDD.partitionBy, {"_bypass_serializer", "_jrdd", "_jvm", "PairwiseRDD"}),
        (RDD.partitionBy, {"PythonPartitioner", "asJavaPairRDD", "PythonRDD", "valueOfPair"}),
        (PipelinedRDD._jrdd.fget, {"_bypass_serializer", "_jrdd_val"}),
        (SparkSession.__init__, {"_jsparkSession"}),
        (SparkContext._do_init, {"_jsc"}),
    ],
)
def test_pyspark_function_uses_the_private_names_that_the_runner_replaces(
    method: Any, names: set[str]
) -> None:
    assert names - set(method.__code__.co_names) == set()


def test_pyspark_conf_accepts_a_jvm_argument() -> None:
    assert "_jvm" in inspect.signature(SparkConf).parameters


VIEWS = {
    "AsSingleton": beam.pvalue.AsSingleton,
    "AsIter": beam.pvalue.AsIter,
    "AsList": beam.pvalue.AsList,
    "AsDict": beam.pvalue.AsDict,
    "AsMultiMap": beam.pvalue.AsMultiMap,
}


@pytest.mark.parametrize("library", ["cloudpickle", "dill"])
@pytest.mark.parametrize("kind", VIEWS)
def test_beam_pickled_side_input_contains_its_kind(kind: str, library: str) -> None:
    if library == "dill":
        pytest.importorskip("dill")
    pcollection = beam.Pipeline() | beam.Create([("a", 1)])
    data = VIEWS[kind](pcollection)._side_input_data()
    pickler.set_library(library)
    try:
        view, mapping = pickler.dumps(data.view_fn), pickler.dumps(data.window_mapping_fn)
        assert contains_pickled_name(view, b"AsSingleton") == (kind == "AsSingleton")
        assert contains_pickled_name(mapping, b"_global_window_mapping_fn")
        assert pickler.loads(mapping) is sideinputs._global_window_mapping_fn
    finally:
        pickler.set_library("default")


def test_beam_pickled_windowed_value_holder_contains_the_expected_markers() -> None:
    element = WindowedValue("a", Timestamp(1), [window.GlobalWindow()])
    pipeline = beam.Pipeline()
    _ = pipeline | test_stream.TestStream().add_elements([test_stream.WindowedValueHolder(element)])
    proto = pipeline.to_runner_api()
    payloads = [
        transform.spec.payload
        for transform in proto.components.transforms.values()
        if transform.spec.urn == transforms.TEST_STREAM
    ]
    assert payloads
    assert all(sign in payload for payload in payloads for sign in _SIGNS)
