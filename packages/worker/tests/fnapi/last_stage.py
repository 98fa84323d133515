"""A runner of the last stage of a pipeline, bundle by bundle in threads, so that tests can watch and split it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from beam_runner_model.bundles import BundleSplit
from beam_runner_model.chunks import ElementChunk, InputChunk
from desk import Desk, VisitElements
from tiny_host import TinyHost, elements, new_pipeline

from beam_runner_worker.fnapi.server import FnApiServer


class ThreadedCall:
    """A call in a separate thread."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self._result = function(*arguments)
        except BaseException as error:
            self._error = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self, limit: float = 30.0) -> Any:
        """Returns the result of the call, or raises its error."""
        self._thread.join(limit)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result


class LastStage:
    """The last stage of a pipeline that starts with numbers, and its input."""

    def __init__(self, pipeline: beam.Pipeline, server_for: Any) -> None:
        self.host = TinyHost(pipeline)
        self.server: FnApiServer = server_for(self.host)
        *before, self.spec = self.host.specs
        for spec in before:
            self.host.run_stage(spec, self.server.get_harness(spec.environment_id))
        self.stage = self.server.get_harness(self.spec.environment_id).get_stage_harness(
            self.spec, self.host.side_inputs(self.spec)
        )
        self.inputs = self.host.inputs(self.spec)

    def elements(self, split: BundleSplit) -> list[ElementChunk]:
        """Returns the residual elements of a split as input."""
        given = [ElementChunk(1, each.element) for each in split.residuals]
        number = 0
        for chunk in self.inputs:
            end = number + chunk.count
            if split.first_residual < end:
                first = max(0, split.first_residual - number)
                given.append(ElementChunk(chunk.count, chunk.data, chunk.ends, first=first))
            number = end
        return given

    def run(self, inputs: Iterable[InputChunk]) -> ThreadedCall:
        """Processes a bundle in a separate thread."""
        return ThreadedCall(
            self.stage.process_bundle, "bundle", inputs, self.host.outputs(self.spec)
        )


def create_visiting_stage(numbers: Iterable[int], desk: Desk, server_for: Any) -> LastStage:
    """Returns a stage that visits numbers in one chunk."""
    p = new_pipeline()
    p | beam.Impulse() | "Visit" >> beam.ParDo(VisitElements(desk))
    stage = LastStage(p, server_for)
    stage.inputs = [elements(*(str(number).encode() for number in numbers))]
    return stage


def create_counting_stage(numbers: Iterable[int], dofn: beam.DoFn, server_for: Any) -> LastStage:
    """Returns a stage with a splittable DoFn at its head, and its input of numbers with restrictions."""
    p = new_pipeline()
    p | beam.Impulse() | beam.FlatMap(lambda _, all=[*numbers]: all) | "Count" >> beam.ParDo(dofn)
    return LastStage(p, server_for)
