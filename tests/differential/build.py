"""Builds the pipeline of a spec, with a sink behind each output without a reader."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import combines
import early
import elementwise
import floods
import groupings
import reading
import ready
import rows
import scripts
import side_inputs
import sink
import sources
import stateful
import summaries
import utilities
from spec import Spec, Step
from typed import Collection


@attrs.frozen
class Kind:
    """Kind of steps.

    Attributes:
        build: function that makes the step from its inputs and its arguments.
        arguments: function that makes random arguments.
        inputs: minimum and maximum number of inputs.
        weight: weight of the random choice.
    """

    build: Callable[..., Collection]
    arguments: Callable[[random.Random], dict[str, Any]]
    inputs: tuple[int, int] = (1, 1)
    weight: int = 2


KINDS: dict[str, Kind] = {
    "create": Kind(sources.create, sources.random_create, (0, 0), 6),
    "impulse": Kind(sources.impulse, sources.random_impulse, (0, 0), 1),
    "read": Kind(sources.read, sources.random_read, (0, 0), 2),
    "bounded": Kind(sources.bounded, sources.random_bounded, (0, 0), 1),
    "map": Kind(elementwise.map_to, elementwise.random_map, weight=6),
    "keep": Kind(elementwise.keep, elementwise.random_filter, weight=1),
    "repeat": Kind(elementwise.repeat, elementwise.random_repeat, weight=1),
    "stamp": Kind(elementwise.stamp, elementwise.random_stamp),
    "look": Kind(elementwise.look, elementwise.random_look, weight=1),
    "live": Kind(elementwise.live, elementwise.random_live),
    "batch": Kind(elementwise.batch, elementwise.random_batch),
    "expand": Kind(elementwise.expand, elementwise.random_expand),
    "survive": Kind(ready.survive, ready.random_survive),
    "wait_on": Kind(ready.wait_on, ready.random_wait_on, (2, 2), 2),
    "ready": Kind(elementwise.ready, elementwise.random_ready),
    "into_windows": Kind(groupings.into_windows, groupings.random_into_windows, weight=8),
    "group": Kind(groupings.group, groupings.random_group, weight=8),
    "together": Kind(groupings.together, groupings.random_together, (1, 3), 4),
    "flatten": Kind(groupings.flatten, groupings.random_flatten, (1, 3), 5),
    "reshuffle": Kind(groupings.reshuffle, groupings.random_reshuffle),
    "batches": Kind(groupings.batches, groupings.random_batches),
    "distinct": Kind(groupings.distinct, groupings.random_distinct, weight=1),
    "per_key": Kind(combines.per_key, combines.random_per_key, weight=4),
    "globally": Kind(combines.globally, combines.random_globally, weight=3),
    "beside": Kind(side_inputs.beside, side_inputs.random_beside, (2, 4), 8),
    "whole_beside": Kind(side_inputs.whole_beside, side_inputs.random_whole_beside, (2, 2), 3),
    "filtered": Kind(side_inputs.filtered, side_inputs.random_filtered, (2, 2)),
    "remember": Kind(stateful.remember, stateful.random_remember),
    "alarms": Kind(stateful.alarms, stateful.random_alarms),
    "number": Kind(stateful.number, stateful.random_number),
    "script": Kind(scripts.script, scripts.random_script, weight=3),
    "early": Kind(early.early, early.random_early),
    "whole": Kind(summaries.whole, summaries.random_whole),
    "each": Kind(summaries.each, summaries.random_each),
    "combine_beside": Kind(summaries.combine_beside, summaries.random_combine_beside, (2, 2)),
    "by_fields": Kind(rows.by_fields, rows.random_by_fields),
    "select": Kind(rows.select, rows.random_select, weight=1),
    "frame": Kind(rows.frame, rows.random_frame, weight=1),
    "row_batches": Kind(rows.row_batches, rows.random_row_batches, weight=1),
    "named": Kind(utilities.named, utilities.random_named),
    "reified": Kind(utilities.reified, utilities.random_reified),
    "pattern": Kind(utilities.pattern, utilities.random_pattern, weight=1),
    "once": Kind(utilities.once, utilities.random_once),
    "batched": Kind(utilities.batched, utilities.random_batched),
    "flatten_with": Kind(utilities.flatten_with, utilities.random_flatten_with, (2, 2), 1),
    "dealt": Kind(utilities.dealt, utilities.random_dealt),
    "files": Kind(reading.files, reading.random_files, (0, 0), 1),
    "watched": Kind(reading.watched, reading.random_watched, (0, 0), 1),
    "spell": Kind(reading.spell, reading.random_spell),
    "expand_beside": Kind(reading.expand_beside, reading.random_expand_beside, (2, 2), 1),
    "flood": Kind(floods.flood, floods.random_flood, weight=1),
    "heavy": Kind(floods.heavy, floods.random_heavy, weight=1),
}
_SOURCES = [name for name, kind in KINDS.items() if kind.inputs == (0, 0)]
_OTHERS = [name for name in KINDS if name not in _SOURCES]


def random_spec(seed: str) -> Spec:
    """Returns a random pipeline, reproducible by its seed."""
    rng = random.Random(seed)
    steps: list[Step] = []
    for number in range(rng.choice([2, 3, 4, 5, 6, 7])):
        fresh = not steps or rng.random() < 0.15
        names = _SOURCES if fresh else _OTHERS
        name = rng.choices(names, [KINDS[each].weight for each in names])[0]
        inputs = (_random_input(rng, number) for _ in range(rng.randint(*KINDS[name].inputs)))
        steps.append(Step(name, tuple(inputs), KINDS[name].arguments(rng)))
    return Spec(tuple(steps))


def _random_input(rng: random.Random, number: int) -> int:
    """Returns mostly the previous step, so that pipelines become deep."""
    return number - 1 if rng.random() < 0.6 else rng.randrange(number)


def build(root: Any, spec: Spec, name: str, folder: str) -> None:
    """Adds a pipeline to ``root``; its outputs are written into the folder.

    Args:
        name: prefix of the names of all its transforms.
    """
    collections: list[Collection] = []
    for number, step in enumerate(spec.steps):
        label = f"{name}/{number} {step.op}"
        if step.inputs:
            inputs = [collections[i].named(label) for i in step.inputs]
            made = KINDS[step.op].build(*inputs, **step.args)
        else:
            made = KINDS[step.op].build(root, label, **step.args)
        collections.append(made)
    read = {number for step in spec.steps for number in step.inputs}
    for number, made in enumerate(collections):
        if number not in read:
            sink.keep(made, folder, f"{name}/{number}")
