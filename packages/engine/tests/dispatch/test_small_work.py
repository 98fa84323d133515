"""Which work is for a loop, and when it is too much for one."""

from __future__ import annotations

import attrs
import pytest

from beam_runner_engine.dispatch.small_work import LoopLimits, is_small
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionPart
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.values.facts import DataFacts

from .bundles import bundle

LIMITS = LoopLimits(
    bundle_ms=200, source_ms=50, parallel_ms=15, usual_weight=0.2, waiting_bytes=100
)


def reading(*sizes: int) -> Bundle:
    inputs = tuple(Input(Data(size, DataFacts(1, size, 0))) for size in sizes)
    return attrs.evolve(bundle(1), inputs=inputs)


def section() -> Bundle:
    return attrs.evolve(bundle(2), parts=(SectionPart("stage", (), (), 0),))


@pytest.mark.parametrize(
    ("bundles", "small"),
    [
        ([], True),
        ([reading(60, 40)], True),
        ([reading(60), reading(41)], False),
        ([section()], False),
    ],
)
def test_small_is_what_is_little_to_read_and_no_section(bundles: list[Bundle], small: bool) -> None:
    assert is_small(bundles, 100) == small
    assert LIMITS.is_outgrown(bundles, usual=0.0) != small


def test_slow_bundles_are_for_several_places_if_several_wait() -> None:
    assert LIMITS.is_outgrown([reading(1), reading(1)], usual=15.1)
    assert not LIMITS.is_outgrown([reading(1), reading(1)], usual=15.0)
    assert not LIMITS.is_outgrown([reading(1)], usual=1000.0)


def test_one_slow_bundle_is_not_usual() -> None:
    usual = LIMITS.usual(0.0, 70.0)
    assert usual == pytest.approx(14.0)
    assert LIMITS.usual(usual, 70.0) > 15.0


def test_a_source_has_less_time() -> None:
    assert LIMITS.longest(is_source=True) < LIMITS.longest(is_source=False)
