"""Tests that the reference model of each operation returns the results of FnApiRunner."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))

from comparing import compare_with_batch
from generator import KINDS, random_partitions
from graphs import BY_BATCH
from haste import make_haste
from judging import Tally
from mortal import Mortals
from spec import Spec, Step

WINDOWS = [
    ("fixed", 50, 5),
    ("sliding", 24, 12, 3),
    ("sessions", 12),
    ("spans", 12),
    ("blocks", 12),
]


def random_specs() -> dict[str, Spec]:
    """Returns a pipeline with each operation behind windows of several kinds."""
    specs = {}
    for number, (name, (inputs, _, arguments)) in enumerate(KINDS.items()):
        rng = random.Random(number)
        steps = [
            Step("source", (), {"partitions": random_partitions(rng, source, 1, False)})
            for source in range(inputs)
        ]
        fn = WINDOWS[number % len(WINDOWS)]
        steps += [
            Step("window", (source,), {"fn": fn, "combiner": "latest"}) for source in range(inputs)
        ]
        windowed = tuple(range(inputs, 2 * inputs))
        steps.append(Step(name, windowed, arguments(rng)))
        steps.append(Step("group", (len(steps) - 1,)))
        specs[name] = Spec(tuple(steps))
    return specs


def test_reference_model_of_each_operation_equals_the_bounded_pipeline() -> None:
    specs = random_specs()
    with Mortals(make_haste) as mortals:
        tally = mortals.call(compare_with_batch, specs)
    assert isinstance(tally, Tally)
    assert not tally.differences and not tally.refused
    assert tally.branches[BY_BATCH] > 2 * len(specs)
