"""Random pipelines from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from folds import FOLDS
from partitions import Action, Partition
from refused_operations import REFUSED
from span_windows import COMBINERS, GLOBAL
from spec import Spec, Step

_BEGIN = 1_000_000
"""Event time (ms) of the start of sources."""
_LATE_PART = 0.15
"""The part of pipelines that have late elements."""
_REFUSED_PART = 0.06
"""The part of pipelines that must be refused."""
_LONG = 5
"""The factor of the length of long sources."""
Arguments = Callable[[random.Random], dict[str, Any]]


def random_spec(seed: str) -> Spec:
    """Returns a pipeline. The same seed makes the same pipeline."""
    rng = random.Random(seed)
    length = rng.choice([1, 1, _LONG])
    if rng.random() < _LATE_PART:
        return _random_late_spec(rng, length)
    steps = list(_random_sources(rng, length, late=False))
    for _ in range(rng.choice([1, 2, 3, 4, 6])):
        names, weights = zip(*((name, kind[1]) for name, kind in KINDS.items()), strict=True)
        op = rng.choices(names, weights)[0]
        inputs, _, arguments = KINDS[op]
        read = tuple(_random_input(rng, len(steps), steps) for _ in range(inputs))
        steps.append(Step(op, read, arguments(rng)))
    if rng.random() < _REFUSED_PART:
        steps.append(Step(rng.choice([*REFUSED]), (_random_input(rng, len(steps), steps),)))
    return Spec(tuple(steps))


def _random_late_spec(rng: random.Random, length: int) -> Spec:
    steps = list(_random_sources(rng, length, late=True))
    last = len(steps) - 1
    for _ in range(rng.choice([1, 2, 3])):
        read = last
        if rng.random() < 0.4:
            steps.append(Step("detour", (last,), {"milliseconds": rng.choice([0, 1, 5])}))
            read = len(steps) - 1
        if rng.random() < 0.3:
            steps.append(Step("admitted", (read,), _random_admitted(rng)))
        else:
            steps.append(Step("panes", (read,), _random_panes(rng)))
    return Spec(tuple(steps))


def _random_sources(rng: random.Random, length: int, late: bool) -> Iterator[Step]:
    """Returns sources; if they are several, their union is the last step."""
    count = rng.choice([1, 1, 2, 2, 3])
    for number in range(count):
        op = "bounded" if number and not late and rng.random() < 0.3 else "source"
        yield Step(op, (), {"partitions": random_partitions(rng, number, length, late)})
    if count > 1:
        yield Step("flatten", tuple(range(count)))
    if not late:
        yield Step("window", (count if count > 1 else 0,), _random_windows(rng))


def _random_input(rng: random.Random, count: int, steps: list[Step]) -> int:
    """Returns the number of a step, mostly the last step, so that pipelines become deep."""
    return count - 1 if rng.random() < 0.6 else rng.randrange(count)


def _random_fn(rng: random.Random, merging: bool = True) -> tuple[Any, ...]:
    size = rng.choice([4, 12, 50, 300])
    fns: list[tuple[Any, ...]] = [
        GLOBAL,
        ("fixed", size, rng.choice([0, 0, size // 4])),
        ("fixed", size, 0),
        ("sliding", 2 * size, size, rng.choice([0, 0, size // 4])),
    ]
    if merging:
        fns += [("sessions", size), ("sessions", 12), ("spans", size), ("blocks", size)]
    return rng.choice(fns)


def _random_windows(rng: random.Random) -> dict[str, Any]:
    return {"fn": _random_fn(rng), "combiner": rng.choice(["end", "end", *COMBINERS])}


def _random_combine(rng: random.Random) -> dict[str, Any]:
    ways = ["plain", "plain", "plain", "values", "fanout"]
    return {"fold": rng.choice([*FOLDS]), "way": rng.choice(ways)}


def _random_side(rng: random.Random) -> dict[str, Any]:
    fns = {name: _random_fn(rng, merging=False) for name in ("fn", "side_fn")}
    return {**fns, "view": rng.choice(["iter", "list", "dict", "singleton"])}


def _random_relay(rng: random.Random) -> dict[str, Any]:
    return {"by_event": rng.random() < 0.5, "seconds": rng.choice([0.0, 0.05, 0.2])}


def _nothing(_: random.Random) -> dict[str, Any]:
    return {}


KINDS: dict[str, tuple[int, int, Arguments]] = {
    "window": (1, 4, _random_windows),
    "rekey": (1, 2, lambda rng: {"keys": rng.choice([1, 3, 10])}),
    "shift": (1, 2, lambda rng: {"by": rng.choice([3, 100]), **_random_windows(rng)}),
    "unfold": (1, 2, lambda rng: {"by": rng.choice([0, 3, 100]), **_random_windows(rng)}),
    "tags": (1, 1, lambda rng: {"take": rng.choice(["even", "odd", "both"])}),
    "reshuffle": (1, 1, _nothing),
    "first_of": (2, 1, _nothing),
    "flatten": (2, 1, _nothing),
    "group": (1, 4, _nothing),
    "combine": (1, 6, _random_combine),
    "globally": (
        1,
        2,
        lambda rng: {**_random_combine(rng), "way": rng.choice(["plain", "fanout"])},
    ),
    "distinct": (1, 1, lambda rng: {"modulus": rng.choice([2, 5, 20])}),
    "join": (2, 3, _random_windows),
    "batches": (
        1,
        2,
        lambda rng: {"size": rng.choice([1, 3, 10]), "seconds": rng.choice([None, None, 0.1])},
    ),
    "side": (2, 3, _random_side),
    "collect": (1, 3, lambda rng: {"when": rng.choice(["last", "end", "beyond"])}),
    "loop": (1, 1, lambda rng: {"period": rng.choice([50, 100])}),
    "alarms": (1, 2, _nothing),
    "relay": (1, 2, _random_relay),
}
"""Operation -> number of inputs, weight of the random choice, and arguments."""


def _random_trigger(rng: random.Random) -> tuple[Any, ...]:
    some = [None, ("count", 1), ("count", 2), ("count", 5), ("clock", 0), ("clock", 1)]
    around = ("watermark", rng.choice(some), rng.choice(some))
    return rng.choice([("default",), around, around, around, rng.choice(some[1:])])


def _random_lateness(rng: random.Random) -> int:
    return rng.choice([0, 0, 5, 50, 1_000_000])


def _random_panes(rng: random.Random) -> dict[str, Any]:
    return {
        "fn": _random_fn(rng),
        "trigger": _random_trigger(rng),
        "lateness": _random_lateness(rng),
        "accumulating": rng.random() < 0.4,
    }


def _random_admitted(rng: random.Random) -> dict[str, Any]:
    return {"fn": _random_fn(rng, merging=False), "lateness": _random_lateness(rng)}


def random_partitions(
    rng: random.Random, number: int, length: int, late: bool
) -> tuple[Partition, ...]:
    """Returns the partitions of a source; all their values differ.

    Args:
        number: the source; values of another source differ, too.
        length: factor of the number of elements.
        late: whether some elements are late.
    """
    keys = rng.choice([1, 2, 4, 10])
    values = iter(range(10_000 * number, 10_000 * (number + 1)))
    late_part = rng.choice([0.0, 0.1, 0.4]) if late else 0.0
    return tuple(
        _random_partition(rng, keys, values, length, late_part)
        for _ in range(rng.choice([1, 2, 3, 5]))
    )


def _random_partition(
    rng: random.Random, keys: int, values: Iterator[int], length: int, late_part: float
) -> Partition:
    clock = _BEGIN + rng.choice([0, 0, 7, 1500])
    spread = rng.choice([0, 0, 5, 40])
    apart = rng.choice([1, 5, 20])
    burst = rng.choice([1, 1, 1, 8])
    pausing = rng.choice([0.2, 0.9])
    actions: list[Action] = []
    if rng.random() < 0.1:
        return 0, tuple(_random_pause(rng) for _ in range(rng.choice([0, 1, 5])))
    if rng.random() < 0.2:
        actions.append(rng.choice([("sleep", 20), ("sleep", 200), ("defer", 200), ("defer", 600)]))
    for _ in range(length * rng.choice([1, 4, 10, 20])):
        for _ in range(rng.choice([1, 1, 1, burst])):
            clock += rng.choice([0, apart, apart])
            at = max(_BEGIN, clock - rng.randint(0, spread))
            key = f"k{rng.randrange(keys)}"
            if rng.random() < late_part:
                back = rng.choice([1, 10, 60, 500])
                actions.append(("late", key, next(values), max(_BEGIN, at - back)))
            else:
                actions.append(("element", key, next(values), at))
        if rng.random() < 0.1:
            clock += rng.choice([15, 100, 2000])
        if rng.random() < pausing:
            actions.append(_random_pause(rng))
    return rng.choice([0, 0, 3, 50]), tuple(actions)


def _random_pause(rng: random.Random) -> Action:
    pauses: list[Action] = [("checkpoint",), ("checkpoint",), ("defer", 1), ("defer", 5)]
    return rng.choice([*pauses, ("defer", rng.choice([1, 30])), ("sleep", rng.choice([1, 5, 60]))])
