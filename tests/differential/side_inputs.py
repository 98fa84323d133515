"""Steps that read other collections beside their own, in every form there is."""

from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from typed import Collection, digits, rewindowed
from values import Kind, digest
from windows import GLOBAL, Windows

_FORMS = ("iter", "list", "dict", "multimap", "singleton", "default", "combined")


def random_beside(rng: random.Random) -> dict[str, Any]:
    return {"forms": [rng.choice(_FORMS) for _ in range(3)]}


def beside(main: Collection, *sides: Collection, forms: list[str]) -> Collection:
    """Each element with a number that everything it reads beside goes into."""
    label = main.label
    views = [
        _view(side.named(f"{label}/side{n}"), form)
        for n, (side, form) in enumerate(zip(sides, forms, strict=False))
    ]
    used = forms[: len(views)]
    kind = ("tuple", "int", "str")
    return main.map("Beside", _read, kind, main.kind, used, *views)


def global_if_merging(side: Collection) -> Collection:
    """Sessions have no window for others."""
    return rewindowed(side, Windows(), "Global") if side.windows.merging else side


def _view(side: Collection, form: str) -> Any:
    """The side input; a single value is in one window."""
    side = global_if_merging(side)
    numbers = digits(side, 7)
    match form:
        case "iter":
            return pvalue.AsIter(numbers.pc)
        case "list":
            return pvalue.AsList(numbers.pc)
        case "dict":
            return pvalue.AsDict(numbers.map("Unique", _unique, ("tuple", "int", "str")).pc)
        case "multimap":
            return pvalue.AsMultiMap(numbers.map("Several", _several, ("tuple", "int", "int")).pc)
        case "singleton" if side.windows.fn == GLOBAL:
            total = numbers.apply("Sum", beam.CombineGlobally(sum), "int")
            return pvalue.AsSingleton(total.pc)
        case "combined" if side.windows.fn == GLOBAL:
            return (
                numbers.pc | f"{side.label}/View" >> beam.CombineGlobally(sum).as_singleton_view()
            )
    total = numbers.apply("Sum", beam.CombineGlobally(sum).without_defaults(), "int")
    return pvalue.AsSingleton(total.pc, default_value=-1)


def _read(element: Any, kind: Kind, forms: list[str], *sides: Any) -> tuple[int, str]:
    number = digest(kind, element)
    return number, " ".join(_told(f, s, number) for f, s in zip(forms, sides, strict=True))


def _told(form: str, side: Any, number: int) -> str:
    match form:
        case "iter" | "list":
            return str(sorted(side))
        case "dict":
            return f"{sorted(side.items())} {side.get(number % 7)}"
        case "multimap":
            return str(sorted(side[number % 3]))
    return str(side)


def _unique(number: int) -> tuple[int, str]:
    return number, f"v{number}"


def _several(number: int) -> tuple[int, int]:
    return number % 3, number
