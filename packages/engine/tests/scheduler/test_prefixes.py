"""Property test: the output of a drained source covers a prefix of each restriction, despite
losses.
"""

from __future__ import annotations

import os

import attrs
import pytest
from beam_runner_model.windows import GLOBAL_WINDOW
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_runner_engine.scheduler.events import Drain, FailureKind
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageSpec

from .host import SimulatedHost
from .usercode import Behaviour

RUNS = int(os.environ.get("BEAM_ENGINE_RUNS", "100"))
GRAPH = GraphSpec(
    (StageSpec("source", ("root",), ("given",), splittable=True), StageSpec("sink", ("given",))),
    ("root",),
)


@attrs.frozen
class Step:
    """Event of the source's open bundle with index `which`."""

    what: str
    which: int
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(("commit", "checkpoint", "checkpoint", "report", "fail", "lose", "tick")),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=25,
)


@st.composite
def sources(draw: st.DrawFn) -> SimulatedHost:
    """Draws a started job whose source has one to four restrictions."""
    behaviour = Behaviour(
        unbounded=draw(st.booleans()),
        drain_keeps=draw(st.sampled_from((None, 0, 1))),
        delay=draw(st.sampled_from((0, 5))),
    )
    limits = Limits(
        parallelism=draw(st.integers(1, 2)),
        bundles_per_stage=draw(st.integers(1, 4)),
        user_attempts=100,
    )
    host = SimulatedHost(GRAPH, {"source": behaviour, "sink": Behaviour()}, limits)
    windows = frozenset({GLOBAL_WINDOW})
    elements = [host.element(n, windows) for n in range(draw(st.integers(1, 4)))]
    host.start({"root": elements})
    return host


def take(host: SimulatedHost, step: Step) -> None:
    """Runs a step if a suitable bundle is open."""
    bundles = [bundle.number for bundle in host.open.values() if bundle.stage == "source"]
    if step.what == "tick":
        host.tick(host.now + step.number)
        return
    if step.what == "lose":
        host.lose()
        return
    if not bundles:
        return
    number = bundles[step.which % len(bundles)]
    match step.what:
        case "commit":
            host.complete(number, 1 + step.number)
        case "fail":
            host.fail(number, FailureKind.USER)
        case "report" | "checkpoint":
            if number not in host.asked:
                host.progress(number, 0.1, 0 if step.what == "report" else 20_000)
            if number in host.asked and step.number:
                host.answer_split(number, step.number - 1, done=1 + step.which)


@pytest.mark.timeout(300 + RUNS)
@settings(max_examples=10 * RUNS)
@given(host=sources(), before=STEPS, after=STEPS)
def test_drained_source_emits_a_prefix_of_each_restriction(
    host: SimulatedHost, before: list[Step], after: list[Step]
) -> None:
    for step in before:
        take(host, step)
    host.handle(Drain())
    for step in after:
        take(host, step)
    host.run_to_end(2_000)
    host.check_end()
