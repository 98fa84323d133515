"""Steps with side inputs, in every form."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from typed import Collection, behind_shuffle, digits, keyed, not_merging, rewindowed
from values import Kind, digest, hint, render
from windows import GLOBAL, Windows

_SOME_KEYS: dict[Any, tuple[Any, Any]] = {"int": (0, 1), "str": ("", "a"), "bytes": (b"a", b"z")}
"""Optional keys by kind."""
_FORMS = ("iter", "list", "dict", "multimap", "singleton", "default", "combined")


def random_beside(rng: random.Random) -> dict[str, Any]:
    return {"forms": [rng.choice(_FORMS) for _ in range(3)]}


def beside(main: Collection, *sides: Collection, forms: list[str]) -> Collection:
    """Pairs each element with a number computed from all its side inputs."""
    label = main.label
    views = [
        _view(side.named(f"{label}/side{n}"), form)
        for n, (side, form) in enumerate(zip(sides, forms, strict=False))
    ]
    used = forms[: len(views)]
    kind = ("tuple", "int", "str")
    return main.map("Beside", _read, kind, main.kind, used, *views)


def random_whole_beside(rng: random.Random) -> dict[str, Any]:
    return {"form": rng.choice(["iter", "list", "dict", "multimap", "singleton", "groups"])}


def whole_beside(main: Collection, side: Collection, *, form: str) -> Collection:
    """Pairs each element with its unchanged side input, for any coder."""
    side = global_if_merging(side.named(f"{main.label}/side"))
    pairs = keyed(side)
    match form:
        case "iter" | "list":
            view: Any = {"iter": pvalue.AsIter, "list": pvalue.AsList}[form](side.pc)
            return main.map(
                "Beside", _read_all, ("tuple", "int", "str"), main.kind, side.kind, view
            )
        case "multimap":
            view, kind = pvalue.AsMultiMap(pairs.pc), pairs.kind
        case "groups":
            groups = pairs.apply("Group", beam.GroupByKey(), "mixed")
            view, kind = pvalue.AsDict(groups.pc), pairs.kind
        case "dict":
            key = pairs.kind[1]
            count = pairs.apply("Count", beam.combiners.Count.PerKey(), ("tuple", key, "int"))
            view, kind = pvalue.AsDict(count.pc), ("tuple", key, "int")
        case "singleton":
            texts = side.map("Texts", _text, "str", side.kind)
            longest = texts.apply("Longest", beam.CombineGlobally(_least).without_defaults(), "str")
            view, kind = pvalue.AsSingleton(longest.pc, default_value="none"), "str"
    return main.map("Beside", _read_whole, ("tuple", "int", "str"), main.kind, kind, form, view)


def random_filtered(rng: random.Random) -> dict[str, Any]:
    return {"way": rng.choice(["filter", "flat map", "partition", "state"])}


def filtered(main: Collection, side: Collection, *, way: str) -> Collection:
    """Applies a named transform whose treatment of elements depends on a side input."""
    numbers = digits(global_if_merging(side.named(f"{main.label}/side")), 5)
    view = pvalue.AsIter(numbers.pc)
    match way:
        case "filter":
            made = beam.Filter(_is_in, kind=main.kind, side=view)
            return main.apply("Filter", made.with_output_types(hint(main.kind)), main.kind)
        case "flat map":
            often = beam.FlatMap(_as_often, kind=main.kind, side=view).with_output_types(str)
            return main.apply("FlatMap", often, "str")
        case "partition":
            parts = main.pc | f"{main.label}/Partition" >> beam.Partition(
                _part, 2, main.kind, side=view
            )
            return attrs.evolve(main, pc=parts[0])
    pairs = keyed(not_merging(behind_shuffle(main)))
    key: Kind = pairs.kind[1]
    # Beam can mistake the type of the side input for the type of the pairs.
    view = pvalue.AsIter(numbers.apply("Untyped", beam.Map(_same).with_output_types(Any), "int").pc)
    count = beam.ParDo(CountBeside(), view).with_output_types(hint(("tuple", key, "str")))
    return attrs.evolve(pairs.apply("Count", count, ("tuple", key, "str")), rings=True)


class CountBeside(beam.DoFn):
    """Stateful DoFn that numbers the elements of each key, and reads a side input."""

    NEXT = userstate.ReadModifyWriteStateSpec("next", VarIntCoder())

    def process(
        self,
        pair: Any,
        side: Any,
        window: Any = beam.DoFn.WindowParam,
        next: Any = beam.DoFn.StateParam(NEXT),
    ) -> Iterator[TimestampedValue]:
        number = next.read() or 0
        next.write(number + 1)
        # Which element has which number, and so its time, is up to chance.
        last = Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)
        yield TimestampedValue((pair[0], f"{number} {sorted(side)}"), last)


def global_if_merging(side: Collection) -> Collection:
    """Sessions have no window for others."""
    return rewindowed(side, Windows(), "Global") if side.windows.merging else side


def _view(side: Collection, form: str) -> Any:
    """Returns the side input; a single value is in one window."""
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


def _read_all(element: Any, kind: Kind, side_kind: Kind, side: Any) -> tuple[int, str]:
    return digest(kind, element), _short(sorted(render(side_kind, each) for each in side))


def _read_whole(element: Any, kind: Kind, side_kind: Kind, form: str, side: Any) -> tuple[int, str]:
    number = digest(kind, element)
    match form:
        case "multimap":
            key_kind = side_kind[1]
            if kind[0] == "tuple" and kind[1] == key_kind:
                key = element[0]
            elif key_kind in _SOME_KEYS:
                key = _SOME_KEYS[key_kind][number % 2]
            else:
                return number, ""
            return number, _short(sorted(render(side_kind[2], each) for each in side[key]))
        case "groups":
            told = (
                f"{render(side_kind[1], key)} {render(('bag', side_kind[2]), values)}"
                for key, values in side.items()
            )
            return number, _short(sorted(told))
        case "dict":
            return number, _short(sorted(render(side_kind, pair) for pair in side.items()))
    return number, side


def _short(texts: list[str]) -> str:
    whole = " ".join(texts)
    return f"{len(texts)} {whole[:100]} {zlib.crc32(whole.encode('utf-8', 'surrogatepass'))}"


def _same(number: int) -> int:
    return number


def _text(element: Any, kind: Kind) -> str:
    return render(kind, element)[:50]


def _least(texts: Any) -> str:
    return min(texts, default="none")


def _is_in(element: Any, kind: Kind, side: Any) -> bool:
    return digest(kind, element) % 5 in set(side)


def _as_often(element: Any, kind: Kind, side: Any) -> list[str]:
    number = digest(kind, element)
    return [str(number)] * sum(1 for each in side if each == number % 5)


def _part(element: Any, parts: int, kind: Kind, side: Any) -> int:
    return (digest(kind, element) + sum(side)) % parts


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
