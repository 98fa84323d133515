"""A stream with every kind of step that has data, and its edits."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import BytesCoder, StrUtf8Coder, VarIntCoder
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.timeutil import TimeDomain
from beam_runner_model.updates import StoredStageData, UpdateInstructions

from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.views import list_stage_views


class Count(beam.DoFn):
    """A stateful DoFn with a value, a bag and a timer."""

    TOTAL = userstate.ReadModifyWriteStateSpec("total", VarIntCoder())
    SEEN = userstate.BagStateSpec("seen", StrUtf8Coder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        alarm: Any = beam.DoFn.TimerParam(ALARM),  # noqa: B008
    ) -> Iterator[Any]:
        del total, seen, alarm
        yield element

    @userstate.on_timer(ALARM)
    def ring(self) -> None:
        """Does nothing."""


class CountWithoutSeen(beam.DoFn):
    """`Count` without its bag."""

    TOTAL = Count.TOTAL
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
        alarm: Any = beam.DoFn.TimerParam(ALARM),  # noqa: B008
    ) -> Iterator[Any]:
        del total, alarm
        yield element

    @userstate.on_timer(ALARM)
    def ring(self) -> None:
        """Does nothing."""


class CountWithoutAlarm(beam.DoFn):
    """`Count` without its timer."""

    TOTAL, SEEN = Count.TOTAL, Count.SEEN

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
    ) -> Iterator[Any]:
        del total, seen
        yield element


class CountWithMore(beam.DoFn):
    """`Count` with another state and another timer."""

    TOTAL, SEEN = Count.TOTAL, Count.SEEN
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)
    LAST = userstate.ReadModifyWriteStateSpec("last", BytesCoder())
    RETRY = userstate.TimerSpec("retry", TimeDomain.REAL_TIME)

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        last: Any = beam.DoFn.StateParam(LAST),  # noqa: B008
        alarm: Any = beam.DoFn.TimerParam(ALARM),  # noqa: B008
        retry: Any = beam.DoFn.TimerParam(RETRY),  # noqa: B008
    ) -> Iterator[Any]:
        del total, seen, last, alarm, retry
        yield element

    @userstate.on_timer(ALARM)
    def ring(self) -> None:
        """Does nothing."""

    @userstate.on_timer(RETRY)
    def try_again(self) -> None:
        """Does nothing."""


class CountOfOtherKinds(beam.DoFn):
    """`Count` with a bag in place of its value, another coder, and a timer in processing time."""

    TOTAL = userstate.BagStateSpec("total", VarIntCoder())
    SEEN = userstate.BagStateSpec("seen", BytesCoder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.REAL_TIME)

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        alarm: Any = beam.DoFn.TimerParam(ALARM),  # noqa: B008
    ) -> Iterator[Any]:
        del total, seen, alarm
        yield element

    @userstate.on_timer(ALARM)
    def ring(self) -> None:
        """Does nothing."""


# The functional syntax keeps the types of fields, which are texts in a class of this module.
_ITEM, _PRICE = ("item", str), ("price", int)
Order = typing.NamedTuple("Order", [_ITEM, _PRICE])
_NOTE = ("note", typing.Optional[str])  # noqa: UP045
OrderWithNote = typing.NamedTuple("OrderWithNote", [_ITEM, _PRICE, _NOTE])
OrderWithDate = typing.NamedTuple("OrderWithDate", [_ITEM, _PRICE, ("date", str)])
OrderInCents = typing.NamedTuple("OrderInCents", [_ITEM, ("price", float)])
for _row in (Order, OrderWithNote, OrderWithDate, OrderInCents):
    beam.coders.registry.register_coder(_row, beam.coders.RowCoder)


class Source(beam.DoFn):
    """The step that makes keys and values from ticks."""

    def process(self, tick: Any) -> Iterator[tuple[str, int]]:
        yield "key", int(tick)


@attrs.frozen
class Stream:
    """A stream: ticks to a stateful step, groups, sums, rows and a side input.

    Each attribute is an edit.
    """

    source: str = "ticks"
    elements: tuple[int, ...] = (1, 2)
    inserted: str = ""
    shuffled: bool = False
    count: Any = Count
    count_name: str = "Count"
    key_type: Any = str
    value_type: Any = int
    windows: Any = attrs.field(factory=lambda: window.FixedWindows(10))
    trigger: Any = None
    accumulating: bool = False
    lateness: int = 0
    row: Any = Order
    sums: bool = True
    sum_name: str = "Sum"
    side: str = "Limits"
    side_read: bool = True
    second_side: str = ""
    more: str = ""

    def __call__(self, p: beam.Pipeline) -> None:
        """Adds the stream to a pipeline."""
        ticks = p | self.source >> PeriodicImpulse(0, 1000, 1)
        pairs = ticks | "Pairs" >> beam.ParDo(Source()).with_output_types(
            tuple[self.key_type, self.value_type]
        )
        if self.inserted:
            pairs |= self.inserted >> beam.Map(_same).with_output_types(
                tuple[self.key_type, self.value_type]
            )
        if self.shuffled:
            pairs |= "Spread" >> beam.Reshuffle()
        counted = pairs | self.count_name >> beam.ParDo(self.count())
        limits = p | self.side >> beam.Create(self.elements)
        sides = [beam.pvalue.AsList(limits)] if self.side_read else []
        if self.second_side:
            sides.insert(0, beam.pvalue.AsList(self._second_side(p, limits, ticks)))
        counted | "Read" >> beam.Map(lambda element, *_: element, *sides)
        windowed = pairs | "Windows" >> self._window_into()
        groups = windowed | "Group" >> beam.GroupByKey()
        groups | "Print" >> beam.Map(_first)
        if self.sums:
            windowed | self.sum_name >> beam.CombinePerKey(sum) | "PrintSums" >> beam.Map(_first)
        rows = pairs | "Rows" >> beam.Map(_first).with_output_types(self.row)
        rows | "Deal" >> beam.Reshuffle() | "PrintRows" >> beam.Map(_first)
        self._add_more(p, pairs, limits)

    def _window_into(self) -> beam.PTransform:
        accumulating = trigger.AccumulationMode.ACCUMULATING
        discarding = trigger.AccumulationMode.DISCARDING
        return beam.WindowInto(
            self.windows,
            trigger=self.trigger or trigger.DefaultTrigger(),
            accumulation_mode=accumulating if self.accumulating else discarding,
            allowed_lateness=self.lateness,
        )

    def _second_side(self, p: beam.Pipeline, limits: Any, ticks: Any) -> Any:
        match self.second_side:
            case "old":
                return limits | "Again" >> beam.Map(_first)
            case "stream":
                return ticks | "Ticks" >> beam.WindowInto(window.FixedWindows(10))
            case _:
                return p | self.second_side >> beam.Create([2])

    def _add_more(self, p: beam.Pipeline, pairs: Any, limits: Any) -> None:
        match self.more:
            case "stateful":
                pairs | "More" >> beam.ParDo(Count())
            case "source":
                p | "More" >> beam.Create([3]) | "MoreDeal" >> beam.Reshuffle()
            case "ended":
                limits | "MoreDeal" >> beam.Reshuffle() | "PrintMore" >> beam.Map(_first)


EMPTY = StoredStageData()
WAITING = StoredStageData(elements=3)


@attrs.frozen
class Edit:
    """An edit of a stream.

    Attributes:
        name: the name of the edit, with hyphens.
        new: the new stream.
        expected: the findings about parts that change, as ``verdict reason subject
            step/part: before -> after``, with ``agreed`` and ``passes`` at the end.
        old: the running stream.
        wishes: the options of the update.
        data: the data of the running job that differs from `contents_of`, by kind of stage.
    """

    name: str
    new: Stream
    expected: list[str]
    old: Stream = attrs.field(factory=Stream)
    wishes: UpdateInstructions = attrs.field(factory=UpdateInstructions)
    data: Mapping[str, StoredStageData] = attrs.field(factory=dict)


def drop(*names: str) -> UpdateInstructions:
    """Returns the options of an update that may drop data."""
    return UpdateInstructions(drop=frozenset(names))


def trust(*names: str) -> UpdateInstructions:
    """Returns the options of an update that trusts coders."""
    return UpdateInstructions(trust=frozenset(names))


def _same(pair: Any) -> Any:
    return pair


def _first(element: Any) -> Any:
    return element


def contents_of(plan: JobPlan, **changes: StoredStageData) -> dict[str, StoredStageData]:
    """Returns the data of a running job: keyed steps have state, sources have residuals, and
    everything that begins with a ``Create`` is complete.

    Args:
        plan: the plan of the job.
        changes: other data, by the kind of a stage.
    """
    found = {}
    for view in list_stage_views(plan).values():
        if view.kind == "begin" or view.step.startswith("Limits/"):
            contents = StoredStageData(complete=True)
        elif view.plan.splittable:
            contents = StoredStageData(elements=1)
        else:
            contents = (
                StoredStageData(state_bytes=500, wakes=1) if view.is_keyed else StoredStageData()
            )
        found[view.plan.stage_id] = changes.get(view.kind, contents)
    return found
