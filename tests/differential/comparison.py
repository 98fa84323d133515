"""Compares many pipelines at once with the oracle, and finds the one that differs by halves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import attrs
import streams
from minimise import minimised
from runners import Refused, Runner, Server
from sink import Outputs
from spec import Spec
from streams import StreamSpec

_SHOWN_ROWS = 6
_SHOWN_CHARACTERS = 3000


@attrs.define
class Tally:
    """What came of pipelines.

    Attributes:
        same: how many had the oracle's outputs, by the kind of environment.
        rows: how many elements were compared.
        refused: those which the oracle could not run, and why.
        differences: what differs, each with the least pipeline that was found to.
    """

    same: Counter[str] = attrs.field(factory=Counter)
    rows: int = 0
    refused: list[str] = attrs.field(factory=list)
    differences: list[str] = attrs.field(factory=list)

    def add(self, other: Tally) -> None:
        """Counts those of another one, too."""
        self.same += other.same
        self.rows += other.rows
        self.refused += other.refused
        self.differences += other.differences


def compare(specs: Mapping[str, Spec], oracle: Runner, runners: Mapping[str, Runner]) -> Tally:
    """Runs pipelines on the oracle, and all in one job in each kind of environment."""
    tally = Tally()
    expected: Outputs = {}
    good = {}
    for name, spec in specs.items():
        try:
            expected |= oracle.run({name: spec})
            good[name] = spec
        except Refused as refused:
            tally.refused.append(f"{name}: {refused}\n{spec}")
    tally.rows = sum(rows.total() for rows in expected.values())
    for environment, runner in runners.items():
        if good:
            _check(good, expected, oracle, environment, runner, tally)
    return tally


def compare_stream(name: str, spec: StreamSpec, runners: Mapping[str, Server]) -> Tally:
    """Runs a script with its readers in each kind of environment; what differs is made smaller."""
    expected = streams.expected(spec, name)
    tally = Tally(rows=sum(rows.total() for rows in expected.values()))
    for environment, runner in runners.items():
        what = _stream_difference(name, spec, runner)
        if what is None:
            tally.same[environment] += len(spec.groupings)
            continue
        least = _least_stream(name, spec, runner)
        text = _stream_difference(name, least, runner) or f"now and then: {what}"
        tally.differences.append(f"{environment}, {name}: {text}\nleast stream: {least}")
    return tally


def _least_stream(name: str, spec: StreamSpec, runner: Server) -> StreamSpec:
    for grouping in spec.groupings:
        alone = attrs.evolve(spec, groupings=(grouping,))
        if _stream_difference(name, alone, runner) is not None:
            spec = alone
            break
    number = 0
    while number < len(spec.events):
        less = attrs.evolve(spec, events=spec.events[:number] + spec.events[number + 1 :])
        if _stream_difference(name, less, runner) is None:
            number += 1
        else:
            spec = less
    return spec


def _stream_difference(name: str, spec: StreamSpec, runner: Server) -> str | None:
    try:
        found = runner.run_stream(spec, name)
    except Refused as refused:
        return str(refused)
    return _told(streams.expected(spec, name), found)


def _check(
    specs: Mapping[str, Spec],
    expected: Outputs,
    oracle: Runner,
    environment: str,
    runner: Runner,
    tally: Tally,
) -> None:
    what = _difference(specs, expected, runner)
    names = list(specs)
    if what is None:
        tally.same[environment] += len(names)
    elif len(names) > 1:
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            some = {name: specs[name] for name in part}
            _check(some, expected, oracle, environment, runner, tally)
    else:
        differs = _differs(names[0], oracle, runner)
        least = minimised(specs[names[0]], differs)
        text = differs(least) or f"now and then: {what}"
        tally.differences.append(f"{environment}, {names[0]}: {text}\nleast pipeline: {least}")


def _differs(name: str, oracle: Runner, runner: Runner) -> Callable[[Spec], str | None]:
    def differs(spec: Spec) -> str | None:
        try:
            expected = oracle.run({name: spec})
        except Refused:
            return None
        return _difference({name: spec}, expected, runner)

    return differs


def _difference(specs: Mapping[str, Spec], expected: Outputs, runner: Runner) -> str | None:
    """What differs; None if nothing does."""
    try:
        found = runner.run(specs)
    except Refused as refused:
        return str(refused)
    return _told({n: rows for n, rows in expected.items() if n.partition("/")[0] in specs}, found)


def _told(expected: Outputs, found: Outputs) -> str | None:
    told = []
    for output in sorted(expected.keys() | found.keys()):
        wanted, got = expected.get(output, Counter()), found.get(output, Counter())
        if wanted != got:
            told.append(f"{output}:{_shown('-', wanted - got)}{_shown('+', got - wanted)}")
    return "\n".join(told)[:_SHOWN_CHARACTERS] or None


def _shown(sign: str, rows: Counter[str]) -> str:
    most = rows.most_common(_SHOWN_ROWS)
    return "".join(f"\n  {sign} {count} x {row}" for row, count in most)
