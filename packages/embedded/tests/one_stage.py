"""One stage of a pipeline, to inspect its bundles and split them while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.portability import common_urns
from apache_beam.transforms import window
from beam_runner_model.bundles import BundleResult, BundleSplit
from beam_runner_model.chunks import ElementChunk, InputChunk
from chunks import split_at_ends
from mini_runner import Logs, MiniRunner, PlannedStage, Port, Views, find_transform_ids

BYTES = coders.WindowedValueCoder(coders.BytesCoder(), coders.GlobalWindowCoder()).get_impl()
SDF = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn

seen: list[int] = []
"""Numbers that the stage's functions have processed."""
hooks: dict[int, Callable[[], None]] = {}
"""Functions to call while a number is processed."""


def create_chunk(numbers: Iterable[int]) -> ElementChunk:
    """Returns a chunk of numbers as texts, as the stage of an Impulse reads them."""
    pieces = [BYTES.encode_nested(window.GlobalWindows.windowed_value(b"%d" % n)) for n in numbers]
    return ElementChunk(len(pieces), b"".join(pieces))


def run_in_thread(function: Callable[[], Any]) -> Any:
    """Returns the result of a function that runs in another thread, within a time limit."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    assert results, "the call failed or timed out"
    return results[0]


def record_number(number: int) -> int:
    """Called by the functions of the stage with each processed number."""
    seen.append(number)
    if number in hooks:
        hooks[number]()
    return number


class OneStage:
    """The stage of a pipeline with a splittable DoFn at its head, or otherwise the first stage.

    The stages before it are run.
    """

    def __init__(self, pipeline: beam.Pipeline) -> None:
        seen.clear()
        hooks.clear()
        self.logs = Logs()
        self.runner = MiniRunner(pipeline, self.logs)
        stages = self.runner.plan.stages
        urns = [{t.spec.urn for t in find_transform_ids(s.spec.descriptor)} for s in stages]
        index = next((i for i, of_stage in enumerate(urns) if SDF in of_stage), 0)
        for planned in stages[:index]:
            self.runner.run_stage(planned)
        self.select_stage(stages[index])

    def select_stage(self, planned: PlannedStage) -> None:
        """Selects the stage."""
        self.planned = planned
        self.stage = self.runner.harness.get_stage_harness(
            planned.spec, Views(self.runner, planned)
        )

    def __enter__(self) -> OneStage:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.harness.close()

    def inputs(self) -> list[InputChunk]:
        """Returns the output of the previous stages."""
        return list(self.runner.input_chunks(self.planned))

    def elements(self) -> list[bytes]:
        """Returns the output of the previous stages, with one chunk per element."""
        return [
            element for chunk in self.inputs() for element in split_at_ends(chunk.data, chunk.ends)
        ]

    def run(self, chunks: Iterable[InputChunk], bundle_id: str = "b") -> BundleResult:
        """Runs a bundle, and drops its output."""
        ports = {name: Port() for name in self.planned.output_buffers}
        return self.stage.process_bundle(bundle_id, chunks, ports)


def split_while(
    one: OneStage, number: int, keep: float, elements: int, points: Sequence[int] = ()
) -> list[BundleSplit | None]:
    """Requests a split while a number is processed. The returned list gets the response."""
    answers: list[BundleSplit | None] = []
    hooks[number] = lambda: answers.append(
        run_in_thread(lambda: one.stage.split(keep, elements, points))
    )
    return answers
