"""Compares many pipelines at once with the oracle, and finds a pipeline with a difference by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import streams
from campaigns import Results, difference
from minimise import minimised
from runners import Built, Refused, Runner, Server, Telling, built, built_stream
from sink import Outputs
from spec import Spec
from streams import StreamSpec


@attrs.define
class Tally(Results):
    """Results of pipelines.

    Attributes:
        fatal: pipelines that killed the process of the oracle.
    """

    fatal: list[str] = attrs.field(factory=list)

    def tell(self) -> None:
        """Prints whatever is not the same."""
        refused = (f"refused by the oracle: {text}" for text in self.refused)
        fatal = (f"the end of the oracle: {text}" for text in self.fatal)
        for text in (*self.differences, *refused, *fatal):
            print(text, flush=True)


def compare(
    specs: Mapping[str, Spec], oracle: Runner, runners: Mapping[str, Runner], tries: int
) -> Tally:
    """Runs pipelines in one job on the oracle, and in one job in each environment.

    Args:
        tries: maximum number of runs to reduce a pipeline with a difference.
    """
    tally = Tally()
    try:
        with built(specs) as made:
            expected = oracle.run(made)
            tally.rows = sum(rows.total() for rows in expected.values())
            differ = {name: _differing(specs, expected, r, made) for name, r in runners.items()}
    except Refused as refused:
        if len(specs) > 1:
            return _compare_halves(specs, oracle, runners, tries)
        tally.refused += [f"{name}: {refused}\n{spec}" for name, spec in specs.items()]
        return tally
    for environment, told in differ.items():
        only = {environment: runners[environment]}
        if told is None:
            tally.add(attrs.evolve(_compare_halves(specs, oracle, only, tries), rows=0))
            continue
        tally.same[environment] += len(specs) - len(told)
        for name, what in told.items():
            differs = _differs(oracle, runners[environment])
            least = minimised(specs[name], differs, tries)
            text = differs(least) or f"now and then: {what}"
            tally.differences.append(f"{environment}, {name}: {text}\nleast pipeline: {least}")
    return tally


def _differing(
    specs: Mapping[str, Spec], expected: Outputs, runner: Runner, made: Built
) -> dict[str, str] | None:
    """Returns the differences by pipeline; None if one of several pipelines failed without a name."""
    try:
        found = runner.run(made)
    except Refused as refused:
        return None if len(specs) > 1 else dict.fromkeys(specs, str(refused))
    told = {name: difference(_of(name, expected), _of(name, found)) for name in specs}
    return {name: text for name, text in told.items() if text is not None}


def _of(pipeline: str, outputs: Outputs) -> Outputs:
    return {name: rows for name, rows in outputs.items() if name.partition("/")[0] == pipeline}


def _compare_halves(
    specs: Mapping[str, Spec], oracle: Runner, runners: Mapping[str, Runner], tries: int
) -> Tally:
    tally, names = Tally(), list(specs)
    for part in (names[: len(names) // 2], names[len(names) // 2 :]):
        tally.add(compare({name: specs[name] for name in part}, oracle, runners, tries))
    return tally


def _differs(oracle: Runner, runner: Runner) -> Callable[[Spec], str | None]:
    def differs(spec: Spec) -> str | None:
        try:
            with built({"p": spec}) as made:
                told = _differing({"p": spec}, oracle.run(made), runner, made)
        except Refused:
            return None
        return (told or {}).get("p")

    return differs


def compare_stream(name: str, spec: StreamSpec, runners: Mapping[str, Telling]) -> Tally:
    """Runs a script with its readers in each environment; reduces scripts with differences."""
    expected = streams.expected(spec, name)
    tally = Tally(rows=sum(rows.total() for rows in expected.values()))
    for environment, runner in runners.items():
        what = stream_difference(name, spec, runner)
        if what is None:
            tally.same[environment] += len(spec.groupings)
            continue
        least = _least_stream(name, spec, runner)
        text = stream_difference(name, least, runner) or f"now and then: {what}"
        tally.differences.append(f"{environment}, {name}: {text}\nleast stream: {least}")
    return tally


def _least_stream(name: str, spec: StreamSpec, runner: Telling) -> StreamSpec:
    for grouping in spec.groupings:
        alone = attrs.evolve(spec, groupings=(grouping,))
        if stream_difference(name, alone, runner) is not None:
            spec = alone
            break
    number = 0
    while number < len(spec.events):
        less = attrs.evolve(spec, events=spec.events[:number] + spec.events[number + 1 :])
        if stream_difference(name, less, runner) is None:
            number += 1
        else:
            spec = less
    return spec


def stream_difference(name: str, spec: StreamSpec, runner: Telling | Server) -> str | None:
    """Returns the difference of a script's outputs; empty without a difference."""
    try:
        with built_stream(spec, name) as made:
            return difference(streams.expected(spec, name), runner.run_stream(made))
    except Refused as refused:
        return str(refused)
