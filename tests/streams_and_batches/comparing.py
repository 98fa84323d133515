"""Runs several pipelines in one job as a stream and in another job as a batch, and compares them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from allowed_differences import of_fn_api_runner
from campaigns import difference
from graphs import BY_BATCH, BY_REFUSAL, build, judges, modelled
from judging import Tally, dropped_differ, judge
from minimise import minimised
from mortal import At
from partitions import Partition
from refused_operations import refusal_of
from runners import Oracle, Refused, built_by
from spec import Spec, Step
from stream_jobs import Way, random_flags, run
from tapping import Outputs, committed

_COPIES = 4
"""Number of copies of a pipeline in one job, to find differences that occur only sometimes."""


def compare(
    at: At, specs: Mapping[str, Spec], ways: Mapping[str, Way], seed: str, tries: int
) -> Tally:
    """Compares pipelines in all ways.

    Args:
        at: function that is called with a description of each run.
        seed: seed of the options of jobs, and of the times of drains.
        tries: maximum number of jobs to reduce a pipeline with a difference.
    """
    runnable = {name: spec for name, spec in specs.items() if refusal_of(spec) is None}
    refused = {name: spec for name, spec in specs.items() if name not in runnable}
    tally = compare_with_batch(at, runnable) if runnable else Tally()
    tally.branches[BY_REFUSAL] += len(refused)
    for label, way in ways.items():
        at.tell(label)
        found = _differences(runnable, way, f"{seed} {label}", tally) if runnable else {}
        not_refused = _not_refused(refused, way, f"{seed} {label}")
        tally.same[label] += len(specs) - len(found) - len(not_refused)
        for name, told in found.items():
            text = _reduced(specs[name], told, way, f"{seed} {label}", tries)
            tally.differences.append(f"{label}, {name}: {text} --environment {label.split()[0]}")
        for name, told in not_refused.items():
            tally.differences.append(f"{label}, {name}: {told}\n{specs[name]}")
    return tally


def _not_refused(specs: Mapping[str, Spec], way: Way, seed: str) -> dict[str, str]:
    """Returns a difference for each pipeline that the server should refuse but runs."""
    found = {}
    for name, spec in specs.items():
        told = "the job isn't refused"
        try:
            with built_by(lambda *args, spec=spec: _build_one(spec, way, *args)) as made:
                run(made, way, random.Random(seed))
        except Refused as refused:
            told = str(refused)
        if (refusal_of(spec) or "") not in told:
            found[name] = f"not refused by name: {told}"
    return found


def _build_one(spec: Spec, way: Way, root: Any, folder: str) -> None:
    build(root, {"refused": spec}, folder, way.as_batch)


def compare_with_batch(at: At, specs: Mapping[str, Spec]) -> Tally:
    """Compares the model of pipelines with FnApiRunner."""
    tally = Tally()
    for name, spec in specs.items():
        tally.branches.update(judges(spec, name).values())
    for name, told in _oracle_differences(at, specs, tally).items():
        tally.differences.append(f"the model, {name}: {told}\n{specs[name]}")
    return tally


def _reduced(spec: Spec, told: str, way: Way, seed: str, tries: int) -> str:
    """Returns a difference, the smallest pipeline that shows it, and the options that run it again."""
    least = minimised(spec, lambda each: _differs_at_times(each, way, seed), tries, simpler)
    again = _differs_at_times(least, way, seed)
    flags = random_flags(random.Random(seed), way.as_batch) if way.flags is None else way.flags
    wanted = {"--drains": way.drains, "--batches": way.as_batch}
    options = [
        *(name for name, value in wanted.items() if value),
        *(f"--option={flag}" for flag in flags),
    ]
    return (
        f"{again or f'only once: {told}'}\nleast pipeline: {least}\n"
        f"again: --spec FILE {' '.join(options)}"
    )


def _oracle_differences(at: At, specs: Mapping[str, Spec], tally: Tally) -> dict[str, str]:
    """Returns how the model differs from FnApiRunner, and adds the pipelines that it refuses."""
    at.tell("the oracle")
    try:
        outputs = _batch(specs)
    except Refused as refused:
        if len(specs) > 1:
            halves = [_oracle_differences(at, part, tally) for part in _halves(specs)]
            return halves[0] | halves[1]
        tally.refused += [f"{name}: {refused}\n{spec}" for name, spec in specs.items()]
        return {}
    found = {}
    for name, spec in specs.items():
        names = [each for each, judge in judges(spec, name).items() if judge == BY_BATCH]
        told = difference(modelled(spec, name), outputs, names)
        if told:
            found[name] = f"the model (-) and the batch (+) differ in {told}"
    return found


def _batch(specs: Mapping[str, Spec]) -> Outputs:
    with built_by(lambda root, folder: build(root, specs, folder, True, False)) as made:
        outputs = Oracle().run(attrs.evolve(made, read=committed))
    return {
        name: type(rows)(map(of_fn_api_runner, rows.elements())) for name, rows in outputs.items()
    }


def _differences(specs: Mapping[str, Spec], way: Way, seed: str, tally: Tally) -> dict[str, str]:
    """Runs one job; returns the differences of pipelines by pipeline."""
    part = Tally()
    try:
        with built_by(lambda root, folder: build(root, specs, folder, way.as_batch)) as made:
            outcome = run(made, way, random.Random(seed))
    except Refused as refused:
        return _of_halves(specs, way, seed, tally, str(refused))
    found = {}
    for name, spec in specs.items():
        told = "\n".join(judge(name, spec, outcome, way.gate is None, part))
        if told:
            found[name] = told
    count = dropped_differ(specs, outcome)
    if count and not found:
        return _of_halves(specs, way, seed, tally, count)
    part.drained = len(specs) if outcome.drained else 0
    tally.add(part)
    return found


def _of_halves(
    specs: Mapping[str, Spec], way: Way, seed: str, tally: Tally, told: str
) -> dict[str, str]:
    """Splits a job whose difference names no pipeline into halves; returns the differences of its pipelines."""
    if len(specs) == 1:
        return dict.fromkeys(specs, told)
    halves = [_differences(part, way, seed, tally) for part in _halves(specs)]
    once = {next(iter(specs)): f"only once, in a job with {', '.join(specs)}: {told}"}
    return halves[0] | halves[1] or once


def _halves(specs: Mapping[str, Spec]) -> list[dict[str, Spec]]:
    names = list(specs)
    middle = len(names) // 2
    return [{name: specs[name] for name in part} for part in (names[:middle], names[middle:])]


def _differs_at_times(spec: Spec, way: Way, seed: str) -> str | None:
    """Returns the difference of a copy of a pipeline."""
    copies = {f"p{number}": spec for number in range(_COPIES)}
    try:
        found = _differences(copies, way, seed, Tally())
    except Exception as error:
        # A smaller pipeline may be impossible to build.
        return None if isinstance(error, (ValueError, TypeError)) else str(error)
    return next(iter(found.values()), None)


def simpler(step: Step) -> Iterator[Step]:
    """Returns simpler steps that can replace a step in a reduced pipeline."""
    if "partitions" in step.args:
        for partitions in _fewer(step.args["partitions"]):
            yield attrs.evolve(step, args={"partitions": partitions})
        return
    if len(step.inputs) > 1 and step.op == "flatten":
        yield attrs.evolve(step, inputs=step.inputs[:-1])
    plain: dict[str, Any] = {
        "combiner": "end",
        "way": "plain",
        "accumulating": False,
        "fold": "sum",
    }
    for name, value in plain.items():
        if step.args.get(name, value) != value:
            yield attrs.evolve(step, args={**step.args, name: value})


def _fewer(partitions: tuple[Partition, ...]) -> Iterator[tuple[Partition, ...]]:
    for number in range(len(partitions)) if len(partitions) > 1 else ():
        yield (*partitions[:number], *partitions[number + 1 :])
    for number, (slack, actions) in enumerate(partitions):
        half = len(actions) // 2
        cuts = [actions[:half], actions[half:]] if half else []
        if len(actions) <= 10:
            cuts += [(*actions[:place], *actions[place + 1 :]) for place in range(len(actions))]
        for cut in cuts:
            yield (*partitions[:number], (slack, cut), *partitions[number + 1 :])
        if slack:
            yield (*partitions[:number], (0, actions), *partitions[number + 1 :])
