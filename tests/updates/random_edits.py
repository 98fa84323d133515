"""Random edits of random pipelines that change no output, and the pipelines' versions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.coders import VarIntCoder
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from graphs import Edits, build
from operations import Stream
from runners import built_by
from span_windows import Windows
from spec import Spec

BRANCH = "Branch"
_FAR = 10**9
"""Event time (s) that no source reaches before its end."""
_MOST_SHARDS = 48
_MOVED = "environment changed"


@attrs.frozen
class Version:
    """Version of all pipelines of a job. Labels of operations select the changed places.

    Attributes:
        environment: environment of the user code.
        shards: number of key shards.
        code: number of the version of all user code.
        names: new labels of renamed operations.
        inserted: operations with a stateless step behind them.
        shuffled: operations with a Reshuffle behind them.
        branches: operations with a further reader, which has state, timers and windows.
    """

    environment: str
    shards: int
    code: int = 0
    names: Mapping[str, str] = attrs.field(factory=dict)
    inserted: frozenset[str] = frozenset()
    shuffled: frozenset[str] = frozenset()
    branches: frozenset[str] = frozenset()


@attrs.frozen
class Change:
    """Change of one version to the next one.

    Attributes:
        version: the new version.
        mapping: new names of steps, by the old names; empty names permit a loss of data.
        kinds: kind of the change of each changed pipeline.
    """

    version: Version
    mapping: Mapping[str, str] = attrs.field(factory=dict)
    kinds: tuple[str, ...] = ()

    @property
    def flags(self) -> list[str]:
        """Options of the update."""
        mapped = [f"--transform_name_mapping={json.dumps(dict(self.mapping))}"]
        return mapped if self.mapping else []


class EditedBuild(Edits):
    """Edits of a version."""

    def __init__(self, version: Version) -> None:
        self._version = version

    def rename(self, label: str) -> str:
        """Returns the label of the version."""
        return self._version.names.get(label, label)

    def extend(self, label: str, stream: Stream) -> Stream:
        """Returns the stream behind the added steps."""
        version = self._version
        if label in version.branches:
            _add_branch(stream, self.rename(label))
        kind: Any = stream.pc.element_type
        if label in version.inserted:
            stream = stream.apply("Inserted", beam.Map(_return_same).with_output_types(kind))
        if label in version.shuffled:
            stream = stream.apply("Shuffled", beam.Reshuffle().with_output_types(kind))
        return stream


class _Places(Edits):
    """Operations that can be edited, while pipelines are built without edits."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def extend(self, label: str, stream: Stream) -> Stream:
        """Adds an operation, unless its elements come at the end of the global window."""
        if not stream.ended:
            self.labels.append(label)
        return stream


def list_places(specs: Mapping[str, Spec]) -> dict[str, list[str]]:
    """Returns the labels of the operations that can be edited, by pipeline."""
    places = _Places()
    with built_by(lambda root, folder: build(root, specs, folder, False, edits=places)):
        pass
    return {
        name: [label for label in places.labels if label.startswith(f"{name}/")] for name in specs
    }


def build_version(
    pipeline: beam.Pipeline, specs: Mapping[str, Spec], folder: str, version: Version
) -> None:
    """Adds a version of the pipelines."""
    build(pipeline, specs, folder, False, edits=EditedBuild(version))
    pipeline.visit(_Coded(version.code))


class _Coded(PipelineVisitor):
    """Visitor that changes the serialized form of all user code."""

    def __init__(self, code: int) -> None:
        self._code = code

    def enter_composite_transform(self, applied: AppliedPTransform) -> None:
        if self._code and isinstance(applied.transform, beam.CombinePerKey):
            applied.transform.fn.code = self._code

    def visit_transform(self, applied: AppliedPTransform) -> None:
        if self._code and isinstance(applied.transform, beam.ParDo):
            applied.transform.fn.code = self._code


class Counted(beam.DoFn):
    """DoFn that counts the elements of a key in state until a timer fires."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        count: Any = beam.DoFn.StateParam(COUNT),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        count.write((count.read() or 0) + 1)
        end.set(Timestamp(_FAR))

    @on_timer(END)
    def end(
        self, key: Any = beam.DoFn.KeyParam, count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[str, int]]:
        yield key, count.read() or 0


def _add_branch(stream: Stream, label: str) -> None:
    """Adds a reader of a stream, whose output has no reader."""
    branch = attrs.evolve(stream, label=f"{label}/{BRANCH}")
    pairs = branch.in_windows(Windows(), "Whole").pairs()
    side = stream.pc.pipeline | f"{branch.label}/Side" >> beam.Create([1], reshuffle=False)
    # Beam's client confuses the main input of a stateful DoFn with a side input.
    beside = beam.Map(_return_same, pvalue.AsList(side)).with_output_types(tuple[str, int])
    _ = pairs.apply("Beside", beside).apply("Count", beam.ParDo(Counted()))
    windowed = branch.apply("Hours", beam.WindowInto(FixedWindows(3600))).pairs("Hourly")
    _ = windowed.apply("Sum", beam.CombinePerKey(sum))


def _return_same(element: Any, side: Any = None) -> Any:
    return element


def choose_first(
    rng: random.Random, places: Mapping[str, Sequence[str]], environment: str
) -> Version:
    """Returns a random first version; half of the pipelines have a step to remove."""
    branches = [rng.choice(labels) for labels in places.values() if rng.random() < 0.5]
    return Version(environment, rng.choice([2, 3, 4]), branches=frozenset(branches))


def choose_change(
    rng: random.Random,
    places: Mapping[str, Sequence[str]],
    version: Version,
    *,
    can_move: bool,
) -> Change:
    """Returns a random change of all pipelines: one of the whole job, or one of each pipeline.

    Args:
        rng: source of randomness.
        places: operations that can be edited, by pipeline.
        version: the present version.
        can_move: whether the environment of the user code may change.
    """
    if rng.random() < 0.3:
        kind = rng.choice([kind for kind in _OF_JOBS if can_move or kind != _MOVED])
        return attrs.evolve(_OF_JOBS[kind](rng, version), kinds=(kind,) * len(places))
    change = Change(version)
    for labels in places.values():
        found = None
        while found is None:
            kind = rng.choice(list(_OF_PIPELINES))
            found = _OF_PIPELINES[kind](rng, labels, change.version)
        mapping = {**change.mapping, **found.mapping}
        change = Change(found.version, mapping, (*change.kinds, kind))
    return change


def _keep(rng: random.Random, version: Version) -> Change:
    return Change(version)


def _change_code(rng: random.Random, version: Version) -> Change:
    return Change(attrs.evolve(version, code=version.code + 1))


def _multiply_shards(rng: random.Random, version: Version) -> Change:
    shards = version.shards * rng.choice([2, 3])
    return Change(
        attrs.evolve(version, shards=shards if shards <= _MOST_SHARDS else version.shards)
    )


def _move(rng: random.Random, version: Version) -> Change:
    other = "embedded" if version.environment == "LOOPBACK" else "LOOPBACK"
    return Change(attrs.evolve(version, environment=other))


_OF_JOBS: dict[str, Callable[[random.Random, Version], Change]] = {
    "same program": _keep,
    "code changed": _change_code,
    "key shards multiplied": _multiply_shards,
    _MOVED: _move,
}


def _rename(rng: random.Random, labels: Sequence[str], version: Version) -> Change:
    label = rng.choice(labels)
    old = version.names.get(label, label)
    new = f"{label} {rng.randrange(10**9)}"
    return Change(attrs.evolve(version, names={**version.names, label: new}), {old: new})


def _toggle(field: str) -> Callable[[random.Random, Sequence[str], Version], Change]:
    def change(rng: random.Random, labels: Sequence[str], version: Version) -> Change:
        places = getattr(version, field) ^ {rng.choice(labels)}
        return Change(attrs.evolve(version, **{field: places}))

    return change


def _add(rng: random.Random, labels: Sequence[str], version: Version) -> Change | None:
    free = [label for label in labels if label not in version.branches]
    if not free:
        return None
    return Change(attrs.evolve(version, branches=version.branches | {rng.choice(free)}))


def _remove(rng: random.Random, labels: Sequence[str], version: Version) -> Change | None:
    present = [label for label in labels if label in version.branches]
    if not present:
        return None
    label = rng.choice(present)
    kept = attrs.evolve(version, branches=version.branches - {label})
    return Change(kept, {f"{version.names.get(label, label)}/{BRANCH}": ""})


_OF_PIPELINES: dict[str, Callable[[random.Random, Sequence[str], Version], Change | None]] = {
    "stateless step added or removed": _toggle("inserted"),
    "reshuffle added or removed": _toggle("shuffled"),
    "step with state added": _add,
    "step with state removed with consent": _remove,
    "step renamed with a mapping": _rename,
}
