"""Tests that stateful DoFns process runs: each element gets its parameters, and no element waits for another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from beam_runner_model.chunks import ElementChunk
from beam_runner_worker.errors import BundleError
from stateful_host import StatefulStage

from beam_runner_embedded import stateful_par_do

BAG = userstate.BagStateSpec("bag", coders.VarIntCoder())
CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)
SECOND = 1_000_000


def joined(*chunks: ElementChunk) -> ElementChunk:
    return ElementChunk(sum(c.count for c in chunks), b"".join(bytes(c.data) for c in chunks))


class Told(beam.DoFn):
    """A DoFn that yields all parameters of an element."""

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        place: Any = beam.DoFn.WindowParam,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        bag.add(element[1])
        yield key, list(bag.read()), int(place.start), int(at), pane.is_first


class ToldMore(Told):
    """A DoFn with a parameter that disables runs."""

    def process(  # type: ignore[override]
        self,
        element: Any,
        whole: Any = beam.DoFn.WindowedValueParam,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
    ) -> Iterator[Any]:
        yield from super().process(
            element, bag, whole.windows[0], element[0], whole.timestamp, whole.pane_info
        )


@pytest.mark.parametrize("fn", [Told, ToldMore])
def test_elements_of_stateful_dofn_get_state_of_their_key_and_window(fn: type[beam.DoFn]) -> None:
    stage = StatefulStage(fn())
    pairs = [("a", 1), ("a", 2), ("b", 3), ("a", 4)]
    found = stage.run(
        joined(
            stage.elements(*pairs, micros=SECOND),
            stage.elements(("a", 5), micros=2 * SECOND),
            stage.elements(("a", 6), start=10, micros=2 * SECOND),
        )
    )
    assert [element.value for element in found] == [
        ("a", [1], 0, 1, True),
        ("a", [1, 2], 0, 1, True),
        ("b", [3], 0, 1, True),
        ("a", [1, 2, 4], 0, 1, True),
        ("a", [1, 2, 4, 5], 0, 2, True),
        ("a", [6], 10, 2, True),
    ]
    assert [int(element.timestamp) for element in found] == [1, 1, 1, 1, 2, 2]
    assert [int(element.windows[0].start) for element in found] == [0, 0, 0, 0, 0, 10]


class Clocks(beam.DoFn):
    """A DoFn that adds its value to a bag, and sets a processing-time timer."""

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),  # noqa: B008
        clock: Any = beam.DoFn.TimerParam(CLOCK),  # noqa: B008
    ) -> None:
        bag.add(element[1])
        clock.set(element[1])

    @userstate.on_timer(CLOCK)
    def strike(self, bag: Any = beam.DoFn.StateParam(BAG)) -> Iterator[Any]:  # noqa: B008
        yield list(bag.read())


def test_timer_hold_equals_timestamp_of_setting_element() -> None:
    stage = StatefulStage(Clocks())
    stage.run(*(stage.elements(("k", at), ("j", at), micros=at * SECOND) for at in (1, 2)))
    assert [(t.fire_at, t.hold) for t in stage.cells.timers] == [(1000, 1000)] * 2 + [
        (2000, 2000)
    ] * 2
    assert len({timer.key for timer in stage.cells.timers}) == 2


def test_stateful_elements_are_emitted_immediately() -> None:
    stage = StatefulStage(Clocks())
    changing = [stage.elements(("k", 1), micros=number * SECOND) for number in range(20)]
    alike = stage.elements(*[("k", 1)] * 30, micros=SECOND)

    def strike() -> Any:
        return stage.timer(stage.cells.timers[0])

    (found,) = stage.run(joined(*changing, alike), strike)
    assert found.value == [1] * 50


@pytest.mark.usefixtures("instant_runs")
def test_state_of_key_is_looked_up_once_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    find = stateful_par_do._make_argument_getter

    def counting(context: Any, default: Any) -> Any:
        argument = find(context, default)
        assert argument is not None
        return lambda key, like: asked.append(key) or argument(key, like)

    monkeypatch.setattr(stateful_par_do, "_make_argument_getter", counting)
    stage = StatefulStage(Clocks())
    # The first sixteen elements are processed singly. Then a run has two elements, the next run
    # four, and so on.
    stage.run(stage.elements(*(("k", number) for number in range(1000))))
    assert len(asked) < 2 * (16 + 20)


class Buffering(beam.DoFn):
    """A DoFn that emits the object in its state and changes it later: Beam forbids this, but its runners accept it."""

    BUFFER = userstate.ReadModifyWriteStateSpec("buffer", coders.FastPrimitivesCoder())

    def process(
        self,
        element: Any,
        buffer: Any = beam.DoFn.StateParam(BUFFER),  # noqa: B008
    ) -> Iterator[Any]:
        held = buffer.read() or []
        buffer.write(held)
        held.append(element[1])
        if len(held) == 2:
            yield element[0], held
            held.clear()


def test_state_object_can_be_emitted() -> None:
    stage = StatefulStage(Buffering())
    found = stage.run(stage.elements(*((str(n // 2), n) for n in range(200))))
    assert [element.value for element in found] == [
        (str(n), [2 * n, 2 * n + 1]) for n in range(100)
    ]


class Failing(Told):
    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> None:  # type: ignore[override]  # noqa: B008
        if element[1] > 40:
            raise KeyError("in a run")


def test_stateful_user_error_names_transform() -> None:
    stage = StatefulStage(Failing())
    pairs = [("k", number) for number in range(50)]
    with pytest.raises(BundleError, match=r"in a run.*\[while running 'Stateful'\]") as failed:
        stage.run(stage.elements(*pairs))
    assert failed.value.transform == "Stateful"
