"""Tests of one stage: the lifecycle of DoFns, and the effects of failures in user code and in the
runner.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.transforms import window
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.stages import OutputEdge, OutputKind
from beam_runner_worker.errors import BundleError, HarnessError
from mini_runner import IMPULSE, EmptyArtifacts, Logs, MiniRunner, Plan, Port, Views, job
from one_restriction import TRACKER

from beam_runner_embedded._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_embedded.harness import EmbeddedHarness

events: list[str] = []
IMPULSE_CHUNK = ElementChunk(1, IMPULSE)


@pytest.fixture(autouse=True)
def no_events() -> None:
    events.clear()


class Host:
    """A harness, and the stage of a pipeline without shuffle."""

    def __init__(self, pipeline: beam.Pipeline) -> None:
        self.plan = Plan(pipeline)
        (self.planned,) = self.plan.stages
        self.logs = Logs()
        self.harness = EmbeddedHarness(job(), EmptyArtifacts(), self.logs)
        self.stage = self.harness.get_stage_harness(self.planned.spec, Views(None, self.planned))

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.harness.close()

    def run(self, chunks: Iterable[ElementChunk] = (IMPULSE_CHUNK,), port: Any = None) -> Port:
        port = port or Port()
        ports = dict.fromkeys(self.planned.output_buffers, port)
        self.result = self.stage.process_bundle("b", chunks, ports)
        return port


def after_impulse(*transforms: beam.PTransform) -> beam.Pipeline:
    """Returns a pipeline of an Impulse and the transforms."""
    pipeline = beam.Pipeline()
    result = pipeline | beam.Impulse()
    for transform in transforms:
        result |= transform
    return pipeline


class Lifecycle(beam.DoFn):
    def __init__(self, fail_in: str = "") -> None:
        self.fail_in = fail_in

    def _event(self, name: str) -> None:
        events.append(name)
        if self.fail_in == name:
            raise ValueError("boom")

    def setup(self) -> None:
        self._event("setup")

    def start_bundle(self) -> None:
        self._event("start")

    def process(self, element: bytes) -> Iterator[str]:
        self._event("process")
        yield "from process"

    def finish_bundle(self) -> Iterator[Any]:
        self._event("finish")
        yield window.GlobalWindows.windowed_value("from finish")

    def teardown(self) -> None:
        self._event("teardown")


def test_dofn_lifecycle_spans_several_bundles() -> None:
    with Host(after_impulse("Life" >> beam.ParDo(Lifecycle()), beam.Map(saw))) as host:
        host.run()
        host.run([IMPULSE_CHUNK, ElementChunk(2, IMPULSE * 2)])
        host.run([])
        assert events.count("teardown") == 0
    host.harness.close()
    bundles = [
        ["setup", "start", "process", "saw from process", "finish", "saw from finish"],
        ["start", *["process", "saw from process"] * 3, "finish", "saw from finish"],
        ["start", "finish", "saw from finish"],
        ["teardown"],
    ]
    assert events == [event for bundle in bundles for event in bundle]


def saw(value: str) -> str:
    events.append(f"saw {value}")
    return value


@pytest.mark.parametrize("where", ["setup", "start", "process", "finish"])
def test_bundle_failure_names_transform_and_tears_down_once(where: str) -> None:
    pipeline = after_impulse(
        "First" >> beam.ParDo(Lifecycle()),
        "Bad" >> beam.ParDo(Lifecycle(where)),
    )
    with Host(pipeline) as host:
        with pytest.raises(BundleError) as failed:
            host.run()
        assert failed.value.transform == "Bad"
        assert failed.value.summary == "ValueError: boom"
        assert "in _event" in failed.value.trace
        assert "while running" not in failed.value.summary
        failed_setups = 1 if where == "setup" else 0
        assert events.count("teardown") == events.count("setup") - failed_setups
        torn_down = events.count("teardown")
    assert events.count("teardown") == torn_down


def fail_once(element: bytes) -> bytes:
    events.append("try")
    if events.count("try") == 1:
        raise KeyError(5)
    return element


def test_embedded_stage_is_usable_after_failed_bundle() -> None:
    with Host(after_impulse("Once" >> beam.Map(fail_once))) as host:
        with pytest.raises(BundleError) as failed:
            host.run()
        assert (failed.value.transform, failed.value.summary) == ("Once", "KeyError: 5")
        host.run()


def exit_process(element: bytes) -> None:
    sys.exit("enough")


def cancel_task(element: bytes) -> None:
    raise asyncio.CancelledError("late")


class ExitWhenLoaded:
    """An object that exits the process when it is unpickled."""

    def __reduce__(self) -> Any:
        return sys.exit, ("not here",)


def test_function_that_exits_process_on_load_fails_stage() -> None:
    step = beam.ParDo(Lifecycle())
    # Beam has already pickled and loaded it once.
    step.fn.ends = ExitWhenLoaded()
    with Host(after_impulse(step)) as host, pytest.raises(BundleError) as failed:
        host.run()
    assert failed.value.summary == "SystemExit: not here (while loading its functions)"


def interrupt(element: bytes) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("handler", "error"),
    [(signal.default_int_handler, KeyboardInterrupt), (signal.SIG_DFL, BundleError)],
)
def test_keyboard_interrupt_is_failure_of_user_code_only_if_sigint_ends_process(
    handler: Any, error: type[BaseException]
) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with Host(after_impulse(beam.Map(interrupt))) as host, pytest.raises(error) as failed:
            host.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(failed.value, KeyboardInterrupt) or "KeyboardInterrupt" in str(failed.value)


def multi_line(element: bytes) -> None:
    raise RuntimeError("one\ntwo")


class OwnError(Exception):
    """An exception that can't be built from a text."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__()
        self.code, self.reason = code, reason

    def __str__(self) -> str:
        return f"{self.reason} ({self.code})"


def own_error(element: bytes) -> None:
    raise OwnError(3, reason="because") from ValueError("the cause")


@pytest.mark.parametrize(
    ("function", "summary", "in_trace"),
    [
        (exit_process, "SystemExit: enough", "in exit_process"),
        (cancel_task, "asyncio.exceptions.CancelledError: late", "in cancel_task"),
        (multi_line, "RuntimeError: one two", "in multi_line"),
        (own_error, f"{OwnError.__module__}.OwnError: because (3)", "ValueError: the cause"),
    ],
)
def test_user_exceptions_of_any_type_fail_bundle(
    function: Any, summary: str, in_trace: str
) -> None:
    pipeline = after_impulse("Outer/Step" >> beam.Map(function))
    with Host(pipeline) as host, pytest.raises(BundleError) as failed:
        host.run()
    assert failed.value.transform == "Outer/Step"
    assert failed.value.summary == summary
    assert in_trace in failed.value.trace


class BadRead(beam.DoFn):
    def process(self, element: Any, tracker: Any = TRACKER) -> list[int]:
        raise ValueError("boom")


def test_splittable_dofn_failure_names_transform() -> None:
    with pytest.raises(BundleError) as failed:
        MiniRunner(after_impulse("Read" >> beam.ParDo(BadRead()))).run()
    assert "Read" in failed.value.transform
    assert failed.value.summary == "ValueError: boom"


class Cancelled(Exception):
    """An exception that the runner raises."""


def inputs_that_fail(error: BaseException) -> Iterator[ElementChunk]:
    yield IMPULSE_CHUNK
    raise error


@pytest.mark.parametrize("error", [Cancelled("now"), KeyboardInterrupt(), GeneratorExit()])
def test_bundle_raises_input_errors_unchanged(error: BaseException) -> None:
    with Host(after_impulse(beam.ParDo(Lifecycle()))) as host:
        with pytest.raises(type(error)) as raised:
            host.run(inputs_that_fail(error))
        assert raised.value is error
        assert events[-2:] == ["process", "teardown"]
        host.run()


class FullPort:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def write(self, chunk: Any) -> None:
        raise self.error


@pytest.mark.parametrize("error", [Cancelled("now"), OSError(28, "full")])
def test_bundle_raises_output_port_errors_unchanged(error: BaseException) -> None:
    pipeline = after_impulse(
        beam.FlatMap(lambda _: (("k", "v" * 1000) for _ in range(3000))), beam.GroupByKey()
    )
    plan = Plan(pipeline)
    logs = Logs()
    harness = EmbeddedHarness(job(), EmptyArtifacts(), logs)
    stage = harness.get_stage_harness(plan.stages[0].spec, None)
    ports = dict.fromkeys(plan.stages[0].output_buffers, FullPort(error))
    with pytest.raises(type(error)) as raised:
        stage.process_bundle("b", [IMPULSE_CHUNK], ports)
    assert raised.value is error
    harness.close()


class NoViews:
    """A reader without side inputs."""


class BrokenViews:
    def get_version(self, *_: Any) -> int:
        return 1

    def read_iterable(self, *_: Any) -> bytes:
        raise Cancelled("no side input")


def read_or_give_up(_: bytes, side: Any) -> list[Any]:
    try:
        return list(side)
    except Cancelled:
        return []


@pytest.mark.parametrize("user", [lambda x, s: list(s), read_or_give_up], ids=["read", "caught"])
def test_bundle_raises_side_input_reader_errors_unchanged(user: Any) -> None:
    pipeline = beam.Pipeline()
    side = pipeline | "side" >> beam.Impulse()
    pipeline | beam.Impulse() | beam.Map(user, beam.pvalue.AsIter(side))
    plan = Plan(pipeline)
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(plan.stages[-1].spec, BrokenViews())
    ports = {name: Port() for name in plan.stages[-1].output_buffers}
    with pytest.raises(Cancelled, match="^no side input$"):
        stage.process_bundle("b", [IMPULSE_CHUNK], ports)
    harness.close()


class FailingTeardown(Lifecycle):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def teardown(self) -> None:
        events.append("teardown")
        raise self._error


def test_sink_directly_after_source_gets_elements() -> None:
    pipeline = after_impulse(beam.Map(lambda x: (x, x)))
    plan = Plan(pipeline)
    spec = plan.stages[0].spec
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    source = descriptor.transforms[spec.input.transform_id]
    sink = beam_runner_api_pb2.PTransform(unique_name="sink")
    sink.spec.urn, sink.spec.payload = "beam:runner:sink:v1", source.spec.payload
    sink.inputs.update(source.outputs)
    for transform_id in set(descriptor.transforms) - {spec.input.transform_id}:
        del descriptor.transforms[transform_id]
    descriptor.transforms["sink"].CopyFrom(sink)
    edge = OutputEdge("sink", OutputKind.ELEMENTS)
    spec = attrs.evolve(spec, descriptor=descriptor.SerializeToString(), outputs=(edge,))
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    stage = harness.get_stage_harness(spec, NoViews())
    for _ in range(2):
        port = Port()
        stage.process_bundle("b", [ElementChunk(2, IMPULSE * 2)], {"sink": port})
        ends = [len(IMPULSE), 2 * len(IMPULSE)]
        assert port.chunks == [ElementChunk(2, IMPULSE * 2, ends)]
    harness.close()


def test_bundle_with_edge_unknown_to_stage_is_refused() -> None:
    plan = Plan(after_impulse(beam.Map(lambda x: x)))
    edge = OutputEdge("sink", OutputKind.ELEMENTS)
    spec = attrs.evolve(plan.stages[0].spec, outputs=(edge,))
    harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
    with pytest.raises(
        HarnessError, match=r"but the stage has the input .* and the outputs \['sink'\]"
    ):
        harness.get_stage_harness(spec, NoViews())
    harness.close()


@pytest.mark.parametrize("kind", [ValueError, SystemExit, asyncio.CancelledError])
def test_errors_in_dofn_teardown_are_logged(kind: type[BaseException]) -> None:
    late = FailingTeardown(kind("late"))
    pipeline = after_impulse("L1" >> beam.ParDo(Lifecycle()), "Late" >> beam.ParDo(late))
    with Host(pipeline) as host:
        host.run()
    assert events.count("teardown") == 2
    errors = [record for record in host.logs.records if "Late" in record.message]
    assert errors
    assert f"{kind.__name__}: late" in errors[-1].trace


def test_input_chunk_with_wrong_count_is_refused() -> None:
    wrong = pytest.raises(HarnessError, match=r"chunk of 1 elements has 28 bytes")
    with Host(after_impulse(beam.Map(lambda x: x))) as host, wrong:
        host.run([ElementChunk(1, IMPULSE * 2)])


class Unloadable:
    def __reduce__(self) -> Any:
        return (load, ())


def load() -> None:
    if events:
        raise ModuleNotFoundError("No module named 'missing'")


def test_functions_that_cannot_be_loaded_are_reported() -> None:
    unloadable = Unloadable()
    with Host(after_impulse(beam.Map(lambda x: unloadable))) as host:
        events.append("submitted")
        with pytest.raises(BundleError, match="ModuleNotFoundError: No module named 'missing'"):
            host.run()
