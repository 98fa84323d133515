"""Tests that an error of stateful user code names the timer or the key being processed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.coders import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from beam_runner_model.chunks import InputChunk, TimerChunk
from beam_runner_worker.errors import BundleError
from stateful_host import StatefulStage

BAG = userstate.BagStateSpec("numbers", coders.VarIntCoder())
VALUE = userstate.ReadModifyWriteStateSpec("last", coders.VarIntCoder())
CLOCK = userstate.TimerSpec("clock", TimeDomain.WATERMARK)


class Keeping(beam.DoFn):
    """A DoFn that fails at the key b, or stores an unencodable value in its state."""

    def process(
        self,
        pair: tuple[str, Any],
        clock: Any = beam.DoFn.TimerParam(CLOCK),  # noqa: B008
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        value: Any = beam.DoFn.StateParam(VALUE),  # noqa: B008
    ) -> Iterator[Any]:
        _, command = pair
        clock.set(5, dynamic_timer_tag="" if command == 0 else "late")
        bag.add("text" if command == 2 else 1)
        value.write("text" if command == 3 else 1)
        if command == 4:
            raise ValueError("boom")
        yield pair

    @userstate.on_timer(CLOCK)
    def ring(
        self, key: Any = beam.DoFn.KeyParam, tag: Any = beam.DoFn.DynamicTimerTagParam
    ) -> None:
        if key == "b":
            raise ValueError("boom")


class KeepingMore(Keeping):
    """A DoFn with a parameter that disables runs."""

    def process(  # type: ignore[override]
        self,
        pair: tuple[str, Any],
        whole: Any = beam.DoFn.WindowedValueParam,
        clock: Any = beam.DoFn.TimerParam(CLOCK),  # noqa: B008
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        value: Any = beam.DoFn.StateParam(VALUE),  # noqa: B008
    ) -> Iterator[Any]:
        yield from super().process(pair, clock, bag, value)


@pytest.mark.parametrize("fn", [Keeping, KeepingMore])
@pytest.mark.parametrize(
    ("command", "element"),
    [
        (0, "the timer 'clock' of the key 'b', due at Timestamp(5)"),
        (1, "the timer 'clock' with the tag 'late' of the key 'b', due at Timestamp(5)"),
        # It is written when the next key comes, or the bundle ends.
        (2, "the key 'b' (can't encode a value for its state 'numbers')"),
        (3, "the key 'b' (can't encode a value for its state 'last')"),
        (4, "('b', 4)"),
    ],
)
def test_user_error_of_stateful_code_names_key_and_timer(
    fn: type[beam.DoFn], command: int, element: str
) -> None:
    stage = StatefulStage(fn())

    def timers() -> InputChunk:
        return TimerChunk(tuple(stage.cells.timers))

    for after in ([timers], [stage.elements(("c", 0)), timers]):
        stage.cells.timers.clear()
        with pytest.raises(BundleError) as failed:
            stage.run(stage.elements(("a", 0), ("b", command)), *after)
        assert failed.value.element == element
        assert failed.value.transform == "Stateful"


def test_undecodable_timer_key_fails_bundle() -> None:
    stage = StatefulStage(Keeping())
    stage.run(stage.elements(("b", 0)))
    (set_before,) = stage.cells.timers
    broken = attrs.evolve(set_before, key=b"\x01\xff")
    with pytest.raises(BundleError) as failed:
        stage.run(TimerChunk((broken,)))
    assert failed.value.element == "the timer 'clock' of the key 01ff (encoded)"
    assert failed.value.transform == "Stateful"
