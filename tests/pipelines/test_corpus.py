"""The fixed corpus of tests/differential: its outputs in each kind of environment."""

from __future__ import annotations

import functools
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
    """Returns what Beam's FnApiRunner makes of a topic, in a process of its own."""
    with Mortals(make_haste) as mortals:

        @functools.cache
        def outputs(topic: str) -> Outputs:
            found = mortals.call(outputs_of_the_oracle, CORPUS[topic])
            assert isinstance(found, dict), f"the oracle ended: {found}"
            return found

        yield outputs


@pytest.fixture
def runner(pipelines: Pipelines, flags_of: Callable[[str], list[str]]) -> Server:
    """The server in a kind of environment."""
    return Server(pipelines.address, flags_of(pipelines.environment))


@pytest.mark.parametrize("topic", CORPUS)
def test_outputs_are_those_of_beams_runner(
    runner: Server, oracle: Callable[[str], Outputs], topic: str
) -> None:
    with built(CORPUS[topic]) as made:
        found = runner.run(made)
    assert difference(oracle(topic), found) is None


@pytest.mark.parametrize("topic", STREAMS)
def test_panes_of_a_stream_are_those_of_the_engine(runner: Server, topic: str) -> None:
    assert stream_difference(topic, STREAMS[topic], runner) is None
