"""PCollection with its kind and windows, and common operations of several kinds of steps."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import attrs
from rules import on_the_oracle
from values import KEYS, Kind, digest, hint, render
from windows import SAFE, Windows, window_into


@attrs.frozen
class Collection:
    """PCollection during the construction of a pipeline.

    Attributes:
        pc: Beam's PCollection.
        kind: kind of the elements.
        windows: windowing of the elements.
        label: prefix of the transform names of the step.
        rings: whether timers emit some of the elements.
    """

    pc: Any
    kind: Kind
    windows: Windows
    label: str
    rings: bool = False

    def apply(self, name: str, transform: beam.PTransform, kind: Kind) -> Collection:
        """Returns the output of a transform."""
        pc = self.pc | f"{self.label}/{name}" >> transform
        return attrs.evolve(self, pc=pc, kind=kind)

    def map(self, name: str, function: Any, kind: Kind, *args: Any) -> Collection:
        """Returns the output of a function, with the type hint of the new kind."""
        return self.apply(name, beam.Map(function, *args).with_output_types(hint(kind)), kind)

    def named(self, label: str) -> Collection:
        """Returns the same collection for a step with another name."""
        return attrs.evolve(self, label=label)


def digits(one: Collection, modulus: int | None = None) -> Collection:
    """Returns the elements as numbers."""
    return one.map("Digits", _digest, "int", one.kind, modulus)


def texts(one: Collection) -> Collection:
    """Returns the elements as texts."""
    return one.map("Texts", _render, "str", one.kind)


def keyed(one: Collection, keys: int = 3, *, plain: bool = False) -> Collection:
    """Returns pairs whose first part is a possible key: the pair's first part, or a number below ``keys``."""
    match one.kind:
        case ("tuple", key, _) if not plain and is_key(key):
            return one
    return one.map("Key", _pair, ("tuple", "int", one.kind), one.kind, keys)


def numbers_by_key(pairs: Collection) -> Collection:
    """Pairs with numbers below 100 in place of their values."""
    kind = ("tuple", pairs.kind[1], "int")
    return pairs.map("Numbers", _numbered, kind, pairs.kind[2])


def is_key(kind: Kind) -> bool:
    """Returns True if elements of a kind have only one encoding."""
    match kind:
        case ("tuple", *parts):
            return all(map(is_key, parts))
        case ("optional", part):
            return is_key(part)
    return kind in KEYS


def rewindowed(one: Collection, windows: Windows, name: str = "Windows") -> Collection:
    """Returns the elements in other windows; the same collection if it has these windows."""
    if one.windows == windows:
        return one
    out = one.apply(name, window_into(windows), one.kind)
    return attrs.evolve(out, windows=windows)


def behind_shuffle(one: Collection) -> Collection:
    """Shuffles the output of timers: the oracle loses state, or hangs, if the output sets timers of the same stage."""
    if not one.rings:
        return one
    return attrs.evolve(one.apply("Apart", beam.Reshuffle(), one.kind), rings=False)


def only_here(one: Collection) -> Collection:
    """Returns the elements, but none on the oracle, which has no clock or no order for the next step."""
    kept = beam.Filter(_is_here).with_output_types(hint(one.kind))
    return one.apply("Here", kept, one.kind)


def only_on_oracle(one: Collection) -> Collection:
    """Returns the elements on the oracle only, to bypass a step that it doesn't support.

    The elements pass a shuffle. Without it, the oracle fuses the side input into the stage that
    waits for it.
    """
    kept = beam.Filter(_is_past).with_output_types(hint(one.kind))
    return one.apply("Past", kept, one.kind).apply("PastApart", beam.Reshuffle(), one.kind)


def not_merging(one: Collection) -> Collection:
    """Returns the elements in windows that support state."""
    return rewindowed(one, Windows(SAFE), "NotMerging") if one.windows.merging else one


def alike(several: list[Collection]) -> list[Collection]:
    """Returns all collections in the windows of the first collection; as texts, if their kinds differ."""
    first = several[0]
    out = [
        rewindowed(each.named(f"{first.label}/in{n}"), first.windows)
        for n, each in enumerate(several)
    ]
    if len({each.kind for each in out}) > 1:
        out = [texts(each) for each in out]
    return out


def _is_here(_: Any) -> bool:
    return not on_the_oracle()


def _is_past(_: Any) -> bool:
    return on_the_oracle()


def _digest(element: Any, kind: Kind, modulus: int | None) -> int:
    number = digest(kind, element)
    return number if modulus is None else number % modulus


def _numbered(pair: tuple[Any, Any], kind: Kind) -> tuple[Any, int]:
    return pair[0], digest(kind, pair[1]) % 100


def _render(element: Any, kind: Kind) -> str:
    text = render(kind, element)
    return text if len(text) <= 100 else f"{text[:50]}... {digest(kind, element)}"


def _pair(element: Any, kind: Kind, keys: int) -> tuple[int, Any]:
    return digest(kind, element) % keys, element
