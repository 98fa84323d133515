"""Tests that run the fixed corpus of tests/differential in each kind of environment."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))

from called_oracle import outputs_of_the_oracle
from campaigns import difference
from comparison import stream_difference
from corpus import CORPUS, STREAMS
from haste import make_haste
from jobs import Pipelines
from mortal import Mortals
from runners import Server, built
from sink import Outputs


@pytest.fixture(scope="session")
def oracle() -> Iterator[Callable[[str], Outputs]]:
    """Returns the outputs of Beam's FnApiRunner for a topic, from a separate process."""
    with Mortals(make_haste) as mortals:

        @functools.cache
        def outputs(topic: str) -> Outputs:
            found = mortals.call(outputs_of_the_oracle, CORPUS[topic])
            assert isinstance(found, dict), f"the oracle ended: {found}"
            return found

        yield outputs


ENVIRONMENTS = ("embedded", "LOOPBACK")
CASES = (
    *itertools.product(ENVIRONMENTS, CORPUS),
    *(("PROCESS", topic) for topic in ("groups", "side inputs", "state")),
)
STREAM_CASES = tuple(itertools.product(STREAMS, ENVIRONMENTS))
# CI runs most topics once on plain processes. It also runs random pipelines over LOOPBACK, and some of these
# topics on a cluster and on lanes.
BATCHES_IN_CI = {
    *(("embedded", topic) for topic in CORPUS if topic != "side inputs"),
    *(("LOOPBACK", "side inputs"), ("PROCESS", "state")),
}
STREAMS_IN_CI = {
    *itertools.product(STREAMS, ["embedded"]),
    *itertools.product(("side inputs", "early, on time and late"), ["LOOPBACK"]),
}


def mark_slow_cases(
    cases: Iterable[tuple[str, str]], in_ci: Collection[tuple[str, str]]
) -> list[object]:
    """Returns the parameters of a test, marked as slow if CI leaves them out."""
    return [
        pytest.param(*case, marks=() if case in in_ci else pytest.mark.slow, id="-".join(case))
        for case in cases
    ]


@pytest.fixture
def runner_in(
    pipelines_in: Callable[[str], Pipelines], flags_of: Callable[[str], list[str]]
) -> Callable[[str], Server]:
    """Returns the server in a kind of environment."""
    return lambda kind: Server(pipelines_in(kind).address, flags_of(kind))


@pytest.mark.parametrize(("environment", "topic"), mark_slow_cases(CASES, BATCHES_IN_CI))
def test_corpus_outputs_equal_those_of_the_beam_runner(
    runner_in: Callable[[str], Server],
    oracle: Callable[[str], Outputs],
    environment: str,
    topic: str,
) -> None:
    with built(CORPUS[topic]) as made:
        found = runner_in(environment).run(made)
    assert difference(oracle(topic), found) is None


@pytest.mark.parametrize(("topic", "environment"), mark_slow_cases(STREAM_CASES, STREAMS_IN_CI))
def test_corpus_stream_panes_equal_those_of_the_engine(
    runner_in: Callable[[str], Server], environment: str, topic: str
) -> None:
    assert stream_difference(topic, STREAMS[topic], runner_in(environment)) is None
