"""A PCollection with what a builder must know of it, and what several kinds of steps do to one."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import attrs
from rules import on_the_oracle
from values import KEYS, Kind, digest, hint, render
from windows import SAFE, Windows, window_into


@attrs.frozen
class Collection:
    """A PCollection while a pipeline is built.

    Attributes:
        pc: Beam's own.
        kind: what its elements are.
        windows: how they are windowed.
        label: begins the names of the transforms of the step that makes it.
        rings: whether timers make some of it.
    """

    pc: Any
    kind: Kind
    windows: Windows
    label: str
    rings: bool = False

    def apply(self, name: str, transform: beam.PTransform, kind: Kind) -> Collection:
        """What a transform makes of it."""
        pc = self.pc | f"{self.label}/{name}" >> transform
        return attrs.evolve(self, pc=pc, kind=kind)

    def map(self, name: str, function: Any, kind: Kind, *args: Any) -> Collection:
        """What a function makes of it, with the type hint of the new kind."""
        return self.apply(name, beam.Map(function, *args).with_output_types(hint(kind)), kind)

    def named(self, label: str) -> Collection:
        """The same, for the step of another name."""
        return attrs.evolve(self, label=label)


def digits(one: Collection, modulus: int | None = None) -> Collection:
    """Its elements as numbers."""
    return one.map("Digits", _digest, "int", one.kind, modulus)


def texts(one: Collection) -> Collection:
    """Its elements as texts."""
    return one.map("Texts", _render, "str", one.kind)


def keyed(one: Collection, keys: int = 3, *, plain: bool = False) -> Collection:
    """Pairs whose first part may be a key: its own, or else numbers below ``keys``."""
    match one.kind:
        case ("tuple", key, _) if not plain and is_key(key):
            return one
    return one.map("Key", _pair, ("tuple", "int", one.kind), one.kind, keys)


def numbers_by_key(pairs: Collection) -> Collection:
    """Pairs with numbers below 100 in place of their values."""
    kind = ("tuple", pairs.kind[1], "int")
    return pairs.map("Numbers", _numbered, kind, pairs.kind[2])


def is_key(kind: Kind) -> bool:
    """Whether elements of a kind are encoded in one way only."""
    match kind:
        case ("tuple", *parts):
            return all(map(is_key, parts))
        case ("optional", part):
            return is_key(part)
    return kind in KEYS


def rewindowed(one: Collection, windows: Windows, name: str = "Windows") -> Collection:
    """Its elements in other windows; the same if it has these."""
    if one.windows == windows:
        return one
    out = one.apply(name, window_into(windows), one.kind)
    return attrs.evolve(out, windows=windows)


def behind_shuffle(one: Collection) -> Collection:
    """What timers make, after a shuffle: the oracle loses state, or hangs, if it sets timers of the same stage."""
    if not one.rings:
        return one
    return attrs.evolve(one.apply("Apart", beam.Reshuffle(), one.kind), rings=False)


def only_here(one: Collection) -> Collection:
    """Its elements, but on the oracle none: what comes next has no clock, or no order, there."""
    kept = beam.Filter(_is_here).with_output_types(hint(one.kind))
    return one.apply("Here", kept, one.kind)


def only_on_oracle(one: Collection) -> Collection:
    """Its elements on the oracle, to go past what it can't do.

    Behind a shuffle, without which it fuses what is read beside into the stage that waits for it.
    """
    kept = beam.Filter(_is_past).with_output_types(hint(one.kind))
    return one.apply("Past", kept, one.kind).apply("PastApart", beam.Reshuffle(), one.kind)


def not_merging(one: Collection) -> Collection:
    """Its elements in windows that state can be kept for."""
    return rewindowed(one, Windows(SAFE), "NotMerging") if one.windows.merging else one


def alike(several: list[Collection]) -> list[Collection]:
    """All in the windows of the first; texts, if they are not of one kind."""
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
