"""Steps of every kind can be built, and the oracle makes something of them."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from build import KINDS
from called import begin
from called_oracle import outputs_of_the_oracle
from mortal import Mortals
from spec import Spec, Step, from_text

CREATE = Step(
    "create",
    (),
    {"kind": "int", "values": [*range(30)], "times": [*range(30)], "hinted": True},
)
FEW = {"impulse", "read", "watched", "bounded", "keep", "repeat", "expand"}
"""Kinds that may make nothing."""


def test_each_kind_of_steps_makes_something_on_the_oracle() -> None:
    specs = {}
    for number, (name, kind) in enumerate(KINDS.items()):
        arguments = kind.arguments(random.Random(number))
        inputs = tuple(0 for _ in range(kind.inputs[1]))
        specs[f"p{number}"] = Spec((CREATE, Step(name, inputs, arguments)))
    assert all(str(from_text(str(spec))) == str(spec) for spec in specs.values())
    with Mortals(begin) as mortals:
        found = mortals.call(outputs_of_the_oracle, specs)
    assert isinstance(found, dict)
    made = {name.partition("/")[0] for name, rows in found.items() if name.endswith("/1") and rows}
    assert {spec.steps[1].op for name, spec in specs.items() if name not in made} <= FEW
