"""Pipelines of realistic sizes; ``python cases.py NAME ENVIRONMENT COUNT FOLDER`` runs one pipeline."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import (
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)

sys.path.insert(0, str(Path(__file__).parent))

from beam_runner_planner import _protos
from in_process import proto_of, run


def _add_one(value: int) -> int:
    return value + 1


def _copied(proto: _protos.Pipeline, count: int, *, in_a_row: bool) -> list[str]:
    """Adds copies of the transform ``Map`` beside or before it; returns their outputs, and the
    transform.

    The copies are made in the proto, because Beam's client needs 16 ms of CPU for each transform.
    """
    components = proto.components
    (map_id,) = (i for i, t in components.transforms.items() if t.unique_name == "Map")
    template = components.transforms[map_id]
    (made,) = template.outputs.values()
    ((tag, read),) = template.inputs.items()
    copies = []
    for number in range(count - 1):
        copy = f"copy{number}"
        components.pcollections[copy].CopyFrom(components.pcollections[made])
        components.pcollections[copy].unique_name = copy
        added = components.transforms[copy]
        added.CopyFrom(template)
        added.unique_name = f"Map{number:05}"
        added.inputs[tag] = read
        for output in added.outputs:
            added.outputs[output] = copy
        proto.root_transform_ids.append(copy)
        copies.append(copy)
        read = copy if in_a_row else read
    template.inputs[tag] = read
    return [*copies, made]


def chain(environment: str, count: int) -> _protos.Pipeline:
    """Builds a chain of ``count`` Maps, each of which adds one."""

    def build(pipeline: beam.Pipeline) -> None:
        ended = pipeline | beam.Create([0]) | "Map" >> beam.Map(_add_one)
        ended | "Check" >> beam.Map(lambda x: x == count or 1 / 0)

    proto = proto_of(build, environment)
    _copied(proto, count, in_a_row=True)
    return proto


def branches(environment: str, count: int) -> _protos.Pipeline:
    """Builds ``count`` Maps of one PCollection, flattened."""

    def build(pipeline: beam.Pipeline) -> None:
        given = pipeline | beam.Create([0])
        both = (given | "Map" >> beam.Map(_add_one), given | "Other" >> beam.Map(_add_one))
        counted = both | "All" >> beam.Flatten() | beam.combiners.Count.Globally()
        counted | "Check" >> beam.Map(lambda x: x == count + 1 or 1 / 0)

    proto = proto_of(build, environment)
    copies = _copied(proto, count, in_a_row=False)
    (flatten,) = (t for t in proto.components.transforms.values() if t.unique_name == "All")
    for copy in copies[:-1]:
        flatten.inputs[copy] = copy
    return proto


def side_inputs(environment: str, count: int) -> _protos.Pipeline:
    """Builds ``count`` PCollections that one Map reads as side inputs."""

    def build(pipeline: beam.Pipeline) -> None:
        side = beam.pvalue.AsSingleton(pipeline | beam.Create([0]) | "Map" >> beam.Map(_add_one))
        main = pipeline | "Main" >> beam.Create([0])
        main | "Check" >> beam.Map(lambda _, *all: sum(all) == count or 1 / 0, *[side] * count)

    proto = proto_of(build, environment)
    copies = _copied(proto, count, in_a_row=False)
    (check,) = (t for t in proto.components.transforms.values() if t.unique_name == "Check")
    tags = sorted(tag for tag, read in check.inputs.items() if read == copies[-1])
    for tag, copy in zip(tags, copies, strict=True):
        check.inputs[tag] = copy
    return proto


def create(environment: str, count: int) -> _protos.Pipeline:
    """Builds a Create of ``count`` elements, which the client puts into the pipeline."""

    def build(pipeline: beam.Pipeline) -> None:
        counted = pipeline | beam.Create(range(count)) | beam.combiners.Count.Globally()
        counted | "Check" >> beam.Map(lambda x: x == count or 1 / 0)

    return proto_of(build, environment)


class Rings(beam.DoFn):
    """DoFn that sets a number of timers for a key, and counts the timers that fire."""

    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)
    COUNT = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        for number in range(element[1]):
            timer.set(number + 1, dynamic_timer_tag=f"{number}")

    @userstate.on_timer(TIMER)
    def ring(
        self,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Any:
        fired = count.read() or 0
        if fired != int(tag):
            raise ValueError(f"{tag} fires after {fired} others")
        count.write(fired + 1)
        yield tag


def timers(environment: str, count: int) -> _protos.Pipeline:
    """Builds a pipeline with ``count`` timers of one key."""

    def build(pipeline: beam.Pipeline) -> None:
        rung = pipeline | beam.Create([("key", count)]) | beam.ParDo(Rings())
        counted = rung | beam.combiners.Count.Globally()
        counted | "Check" >> beam.Map(lambda found: found == count or 1 / 0)

    return proto_of(build, environment)


def keys(environment: str, count: int) -> _protos.Pipeline:
    """Builds a pipeline with ``count`` keys, each with a timer."""

    def build(pipeline: beam.Pipeline) -> None:
        given = pipeline | beam.Create(range(count)) | "Key" >> beam.Map(lambda n: (n, 1))
        counted = given | beam.ParDo(Rings()) | beam.combiners.Count.Globally()
        counted | "Check" >> beam.Map(lambda found: found == count or 1 / 0)

    return proto_of(build, environment)


def outputs(environment: str, count: int) -> _protos.Pipeline:
    """Builds a DoFn with ``count`` outputs, flattened."""
    tags = [str(number) for number in range(count)]

    def build(pipeline: beam.Pipeline) -> None:
        split = beam.Map(lambda n: beam.pvalue.TaggedOutput(str(n), n)).with_outputs(*tags)
        given = pipeline | beam.Create(range(count)) | split
        counted = [given[tag] for tag in tags] | beam.Flatten() | beam.combiners.Count.Globally()
        counted | "Check" >> beam.Map(lambda found: found == count or 1 / 0)

    return proto_of(build, environment)


def _windowed(
    environment: str, count: int, elements: int, every: int, windows: WindowFn
) -> _protos.Pipeline:
    """Groups elements of 1,000 keys at a fixed distance (s), which must form ``count`` groups."""

    def build(pipeline: beam.Pipeline) -> None:
        timed = beam.Map(lambda n: TimestampedValue((n % 1000, n), n // 1000 * every))
        groups = (
            pipeline
            | beam.Create(range(elements))
            | "Time" >> timed
            | "Windows" >> beam.WindowInto(windows)
            | beam.GroupByKey()
            | "Global" >> beam.WindowInto(GlobalWindows())
        )
        counted = groups | beam.combiners.Count.Globally()
        counted | "Check" >> beam.Map(lambda found: found == count or 1 / 0)

    return proto_of(build, environment)


def sliding(environment: str, count: int) -> _protos.Pipeline:
    """Builds a pipeline with one element in ``count`` windows."""
    return _windowed(environment, count, 1, 0, SlidingWindows(count, 1))


def sessions(environment: str, count: int) -> _protos.Pipeline:
    """Builds a pipeline with ``count`` sessions of 1,000 keys."""
    return _windowed(environment, count, count, 100, Sessions(10))


_ALL = (chain, branches, side_inputs, create, timers, keys, outputs, sliding, sessions)
CASES = {case.__name__: case for case in _ALL}

if __name__ == "__main__":
    name, environment, count, folder = sys.argv[1:]
    proto = CASES[name](environment, int(count))
    print(json.dumps(attrs.asdict(run(proto, Path(folder)))))
