"""Fixed corpus: for each topic of the model, one pipeline, or one script with its readers.

Each pipeline has many branches, so that one job covers a complete topic. The outputs of a pipeline
must equal the outputs of the oracle. The outputs of a script must equal the outputs of the engine
and of the models.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

from beside_streams import Combining
from spec import Spec, Step
from streams import Grouping, Playing, Reader, StreamSpec
from windows import COMBINERS, GLOBAL

Add: TypeAlias = Callable[..., int]
"""Function that adds a step from its name, the numbers of its inputs and its arguments; returns its number."""

TENS, TWENTIES = ("fixed", 10, 0), ("fixed", 20, 0)
OVERLAPPING, GAPS = ("sliding", 10, 5, 0), ("sliding", 2, 4, 0)
CUSTOM, SOME = ("custom",), ("some",)
_FORMS = (["iter", "list", "dict"], ["multimap", "singleton", "default"])
WINDOWS: tuple[tuple[Any, ...], ...] = (
    *(GLOBAL, TENS, ("fixed", 10, 2), OVERLAPPING, GAPS, CUSTOM, SOME),
    *(("sessions", 3), ("by element",)),
)


def _create(add: Add, kind: Any, values: list[Any], *, timed: bool = True) -> int:
    """Adds a source of values, one every three seconds or all at the minimum timestamp."""
    times = [3 * number - 3 for number in range(len(values))] if timed else None
    return add("create", kind=kind, values=values, times=times, hinted=True)


def _numbers(add: Add, count: int = 12) -> int:
    return _create(add, "int", list(range(count)))


def _pairs(add: Add) -> int:
    return _create(add, ("tuple", "str", "int"), [("ab"[n % 3 == 0], n) for n in range(12)])


def _into(add: Add, one: int, fn: tuple[Any, ...], combiner: str = "end") -> int:
    return add("into_windows", one, fn=fn, combiner=combiner)


def _windows(add: Add) -> None:
    pairs = _pairs(add)
    dealt = add("reshuffle", pairs, by_key=False)
    for fn, combiner in itertools.product(WINDOWS, COMBINERS):
        windowed = _into(add, dealt if combiner == "end" else pairs, fn, combiner)
        add("group", windowed, keys=3)
        add("per_key", windowed, fn="sum", way="plain")
        if combiner == "end":
            again = add("globally", windowed, fn="count", fanout=False, defaults=False)
            add("group", _into(add, again, TWENTIES), keys=1)
            add("reshuffle", windowed, by_key=True)
            add("flatten", windowed, windowed)
            add("look", windowed, keyed=False)
    for fn in (GAPS, SOME):
        windowed = _into(add, pairs, fn)
        add("group", _into(add, windowed, ("sessions", 1)), keys=3)
        whole = _into(add, windowed, GLOBAL)
        add("whole_beside", pairs, whole, form="iter")


def _elements(add: Add) -> None:
    numbers = _into(add, _numbers(add), TENS)
    for take, named in itertools.product(("main", "text", "both"), (False, True)):
        add("dealt", numbers, take=take, named=named)
    for which in ("keys", "values", "swap", "text", "partition"):
        add("ready", numbers, which=which)
    for make in ("mixed", "point", "nested", "optional", "plain", "message", "span"):
        add("reshuffle", add("map", numbers, make=make, hinted=make != "plain"), by_key=False)
    add("repeat", numbers, most=3)
    texts = add("map", numbers, make="text", hinted=True)
    add("flatten", numbers, texts, numbers)
    add("live", numbers)
    add("look", numbers, keyed=True)
    add("look", add("reshuffle", add("group", numbers, keys=3), by_key=False), keyed=False)
    add("batch", numbers, way="batches")
    nothing = add("keep", _numbers(add), modulus=1)
    add("group", nothing, keys=1)
    add("globally", nothing, fn="count", fanout=False, defaults=True)


def _groups(add: Add) -> None:
    odd = [None, 1, "1", b"1", 2.5, False, "", b"", 2**80, (1, "1"), "ü"]
    keys = _create(add, ("tuple", "mixed-key", "int"), [(k, n) for n in (0, 1) for k in odd])
    grouped = add("group", keys, keys=1)
    pairs, numbers = _pairs(add), _numbers(add)
    again = add("group", add("group", pairs, keys=1), keys=1)
    add("group", add("flatten", again, again), keys=1)
    for named in (False, True):
        add("together", pairs, numbers, grouped, named=named)
    for way in ("group", "twice", "first", "together", "combine"):
        add("flood", numbers, copies=2000, length=30, way=way)
    for way, copies in itertools.product(
        ("nested", "thrice", "flattened", "kept", "groups beside"), (1, 2000)
    ):
        add("flood", numbers, copies=copies, length=30, way=way)
    for state in (False, True):
        add("heavy", numbers, kilobytes=5000, state=state)
    add("distinct", add("flatten", numbers, numbers))
    for fn, way in itertools.product(
        ("statistics", "mean", "ordered"), ("plain", "fanout", "values", "packed")
    ):
        add("per_key", numbers, fn=fn, way=way)
    for fanout in (False, True):
        add("globally", numbers, fn="statistics", fanout=fanout, defaults=True)
    for way in ("sorted", "sized", "stateful", "buffered", "sharded"):
        add("batched", numbers, way=way)


def _side_inputs(add: Add) -> None:
    numbers, pairs = _numbers(add), _pairs(add)
    nothing = add("keep", _numbers(add), modulus=1)
    for form in ("iter", "list", "dict", "multimap", "singleton", "groups"):
        for side in (pairs, nothing):
            add("whole_beside", numbers, side, form=form)
    for few in _FORMS:
        add("beside", numbers, nothing, nothing, nothing, forms=few)
    for way in ("filter", "flat map", "partition", "state"):
        add("filtered", numbers, pairs, way=way)
    add("expand_beside", numbers, pairs)
    add("flood", numbers, copies=2000, length=300, way="side")


def _side_inputs_in_windows(add: Add) -> None:
    numbers, pairs = _numbers(add), _pairs(add)
    for fn, side_fn in (
        *((GLOBAL, GLOBAL), (TENS, TENS), (TENS, TWENTIES), (TENS, GLOBAL)),
        *((OVERLAPPING, TENS), (CUSTOM, CUSTOM), (GAPS, GAPS), (SOME, TENS)),
    ):
        main, side = _into(add, numbers, fn), _into(add, pairs, side_fn)
        for few in _FORMS:
            add("beside", main, side, side, side, forms=few)


def _side_inputs_of_combiners(add: Add) -> None:
    numbers, pairs = _numbers(add), _pairs(add)
    for combiner, per_key in itertools.product(COMBINERS, (False, True)):
        windowed = _into(add, pairs, TENS, combiner)
        add("combine_beside", windowed, numbers, per_key=per_key)
        add("combine_beside", windowed, windowed, per_key=per_key)


def _side_inputs_of_side_inputs(add: Add) -> None:
    numbers = _numbers(add)
    itself = add("beside", numbers, numbers, forms=["list"])
    again = add("beside", itself, itself, numbers, forms=["iter", "combined"])
    add("beside", again, numbers, itself, forms=["multimap", "singleton"])


def _state(add: Add) -> None:
    pairs = _pairs(add)
    many = [(f"k{n % 50}", n) for n in range(1000)]
    many_pairs = _create(add, ("tuple", "str", "int"), many, timed=False)
    add("number", add("reshuffle", many_pairs, by_key=False))
    for fn in (GLOBAL, TENS, OVERLAPPING, GAPS, CUSTOM, SOME):
        windowed = _into(add, pairs, fn)
        add("number", windowed)
        add("remember", windowed)
        add("alarms", windowed, tags=3)
        for salt in range(3):
            add("script", windowed, salt=salt)


def _sources(add: Add) -> None:
    for pause in (0, 3):
        read = add("read", counts=[3, 0, 11], pause=pause)
        add("group", _into(add, read, TENS), keys=1)
        add("expand", _into(add, _numbers(add), OVERLAPPING), pause=pause and 2)
        for take in ("main", "vowels"):
            add("spell", _into(add, _pairs(add), TENS), pause=pause, take=take)
        for manual in (False, True):
            add("watched", counts=[3, 0, 11], pause=pause, manual=manual)
    add("bounded", count=40)
    add("impulse", count=7)
    for way in ("text", "all", "names", "match", "contents"):
        add("files", way=way, files=["spec.py", "sink.py"])


def _transforms_of_beam(add: Add) -> None:
    numbers, pairs = _into(add, _numbers(add), TENS), _into(add, _pairs(add), TENS)
    whole = (
        *("mean", "set", "list", "sample", "top", "last digits", "least", "latest", "quantiles"),
        *("unique", "to dict", "any", "per element"),
    )
    for which in whole:
        add("whole", numbers, which=which, defaults=False)
    for which in ("mean", "least", "greatest", "quantiles", "count", "sample", "latest"):
        add("each", pairs, which=which)
    for way in ("window", "time in value", "window in value"):
        add("reified", pairs, way=way)
    for way in ("constant", "function", "beside", "kvs", "iterables", "tee", "buckets", "parts"):
        add("named", numbers, way=way)
    for way in ("matches", "pairs", "find", "replace", "split", "all"):
        add("pattern", numbers, way=way)
    for time, keys in itertools.product(("event", "clock"), (False, True)):
        add("once", numbers, time=time, keys=keys)
    for take in ("good", "bad"):
        add("survive", numbers, take=take)
    for trigger, accumulating in (("each", True), ("early and late", False), ("clock", False)):
        add("early", numbers, trigger=trigger, accumulating=accumulating, combine=accumulating)
    add("wait_on", numbers, pairs)
    add("flatten_with", numbers, pairs)
    add("batches", pairs, size=2, sharded=False)
    add("batches", pairs, size=2, sharded=True)
    add("stamp", numbers, most=10)
    for by in ("field", "fields", "function", "named", "tuple"):
        add("by_fields", numbers, by=by, **{"as": "sums"})
    for way in ("names", "functions", "point", "nested"):
        add("select", numbers, way=way)
    for way in ("sums", "filter", "column"):
        add("frame", numbers, way=way)
    for by in ("field", "fields", "function", "tuple"):
        add("by_fields", numbers, by=by, **{"as": "means"})
    for way in ("tables", "frames", "chain", "beside"):
        add("row_batches", numbers, way=way)
    for way in ("to elements", "to batches"):
        add("batch", numbers, way=way)


def _spec(part: Callable[[Add], None]) -> Spec:
    """Returns the pipeline of a part of a topic."""
    steps: list[Step] = []

    def add(op: str, *inputs: int, **args: Any) -> int:
        steps.append(Step(op, inputs, args))
        return len(steps) - 1

    part(add)
    return Spec(tuple(steps))


_TOPICS = {
    "elements": (_elements, _transforms_of_beam),
    "groups": (_groups,),
    "side inputs": (
        *(_side_inputs, _side_inputs_in_windows),
        *(_side_inputs_of_combiners, _side_inputs_of_side_inputs),
    ),
    "sources": (_sources,),
    "state": (_state,),
    "windows": (_windows,),
}
CORPUS: dict[str, dict[str, Spec]] = {
    topic: {part.__name__.lstrip("_"): _spec(part) for part in parts}
    for topic, parts in _TOPICS.items()
}


def _groupings(*triggers: tuple[Any, ...], fn: tuple[Any, ...], lateness: int = 0) -> list[Reader]:
    return [
        Grouping(fn, trigger, accumulating, lateness, "end")
        for trigger, accumulating in itertools.product(triggers, (False, True))
    ]


_LATE = (
    *(("element", "a", 1, 1001), ("element", "b", 2, 1001), ("element", "a", 3, 1003)),
    *(("watermark", 1010), ("element", "a", 4, 1004), ("watermark", 1031)),
    *(("element", "a", 5, 1005), ("element", "b", 6, 1033)),
)
_BY_THE_CLOCK = (
    *(("element", "a", number, 1000) for number in range(4)),
    *(("clock", 6), ("element", "a", 4, 1000), ("clock", 9), ("clock", 1)),
    *(("element", "a", 5, 1000), ("clock", 6)),
)
_GROWING = (
    *(("watermark", 1000), ("element", "a", 1, 1001), ("element", "a", 3, 1016)),
    *(("element", "b", 2, 1009), ("element", "a", 2, 1009), ("watermark", 1026)),
    ("element", "a", 4, 1040),
)
_STEPS = tuple(
    event
    for second in range(0, 60, 6)
    for event in (
        ("element", "ab"[second % 4 == 0], second, 1000 + second - 17 * (second % 12 == 6)),
        ("watermark", 1000 + second) if second % 9 else ("clock", 5),
    )
)
_COUNT = ("count", 1)
STREAMS: dict[str, StreamSpec] = {
    "early, on time and late": StreamSpec(
        _LATE,
        (
            *_groupings(("watermark", ("count", 2), _COUNT), ("default",), fn=TENS, lateness=20),
            *_groupings(("watermark", _COUNT, None), ("always",), fn=OVERLAPPING),
            *_groupings(("watermark", _COUNT, _COUNT), fn=GAPS, lateness=1000),
        ),
    ),
    "triggers": StreamSpec(
        _BY_THE_CLOCK,
        tuple(
            _groupings(
                ("repeatedly", ("clock", 10)),
                ("repeatedly", ("any", ("count", 3), ("clock", 5))),
                ("repeatedly", ("all", ("count", 2), ("clock", 5))),
                ("each", ("count", 1), ("repeatedly", ("clock", 5))),
                ("until", ("repeatedly", ("count", 1)), ("count", 3)),
                ("until", ("repeatedly", ("count", 3)), ("watermark", ("count", 2), None)),
                fn=GLOBAL,
            )
        ),
    ),
    "sessions": StreamSpec(
        _GROWING,
        (
            *_groupings(("watermark", None, None), ("repeatedly", _COUNT), fn=("sessions", 10)),
            *(Grouping(("sessions", 10), ("default",), False, 30, one) for one in COMBINERS),
        ),
    ),
    "state": StreamSpec(
        _STEPS,
        tuple(
            Playing(fn, lateness)
            for fn in (GLOBAL, TWENTIES, OVERLAPPING, GAPS)
            for lateness in (0, 1_000_000)
        ),
    ),
    "side inputs": StreamSpec(
        _STEPS,
        tuple(Combining(fn, one) for fn in (TENS, ("sliding", 5, 15, 0)) for one in COMBINERS),
    ),
}
