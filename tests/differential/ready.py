"""Steps that are transforms which Beam brings along, some of them made of many others."""

from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.transforms.util import WaitOn
from side_inputs import global_if_merging
from typed import Collection
from values import Kind, digest, hint


def random_survive(rng: random.Random) -> dict[str, Any]:
    return {"take": rng.choice(["good", "bad", "both"])}


def survive(one: Collection, *, take: str) -> Collection:
    """Sends elements for which a function raises to a separate output."""
    kind: Kind = ("tuple", "int", "int")
    mapped = beam.Map(_fragile, one.kind).with_output_types(hint(kind))
    good, bad = one.pc | f"{one.label}/Fragile" >> mapped.with_exception_handling()
    told = beam.Map(_failed, one.kind).with_output_types(hint(kind))
    bad = bad | f"{one.label}/Failed" >> told
    both = {"good": (good,), "bad": (bad,), "both": (good, bad)}[take]
    return attrs.evolve(one, pc=both | f"{one.label}/Both" >> beam.Flatten(), kind=kind)


def random_wait_on(rng: random.Random) -> dict[str, Any]:
    return {}


def wait_on(one: Collection, other: Collection) -> Collection:
    """Emits the elements after another collection is complete."""
    ready = global_if_merging(other.named(f"{one.label}/other"))
    return one.apply("WaitOn", WaitOn(ready.pc), one.kind)


def _fragile(element: Any, kind: Kind) -> tuple[int, int]:
    number = digest(kind, element)
    if number % 3 == 0:
        raise ValueError(f"{number} has to fail")
    return number, 1


def _failed(dead: Any, kind: Kind) -> tuple[int, int]:
    element, (error, _, _) = dead
    return digest(kind, element), -len(error.__name__)
