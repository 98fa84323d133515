"""The fixed corpus of tests/differential: its outputs in each kind of environment."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))

from called_oracle import outputs_of_the_oracle
from comparison import difference, stream_difference
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
# Outside the runner's own workers, CI runs these; its sessions of random pipelines run others over LOOPBACK each time.
IN_CI = {
    "LOOPBACK": {"side inputs", "state", "early, on time and late"},
    "PROCESS": {"state"},
}


def case(environment: str, topic: str, *parameters: str) -> object:
    """Returns the parameters of a test, marked as slow if CI leaves the topic out."""
    everywhere = topic in IN_CI.get(environment, {topic})
    marks = () if everywhere else (pytest.mark.slow,)
    return pytest.param(*parameters, marks=marks, id="-".join(parameters))


@pytest.fixture
def runner_in(
    pipelines_in: Callable[[str], Pipelines], flags_of: Callable[[str], list[str]]
) -> Callable[[str], Server]:
    """Returns the server in a kind of environment."""
    return lambda kind: Server(pipelines_in(kind).address, flags_of(kind))


@pytest.mark.parametrize(("environment", "topic"), [case(*one, *one) for one in CASES])
def test_corpus_outputs_equal_those_of_the_beam_runner(
    runner_in: Callable[[str], Server],
    oracle: Callable[[str], Outputs],
    environment: str,
    topic: str,
) -> None:
    with built(CORPUS[topic]) as made:
        found = runner_in(environment).run(made)
    assert difference(oracle(topic), found) is None


@pytest.mark.parametrize(
    ("topic", "environment"),
    [case(environment, topic, topic, environment) for topic, environment in STREAM_CASES],
)
def test_corpus_stream_panes_equal_those_of_the_engine(
    runner_in: Callable[[str], Server], environment: str, topic: str
) -> None:
    assert stream_difference(topic, STREAMS[topic], runner_in(environment)) is None
