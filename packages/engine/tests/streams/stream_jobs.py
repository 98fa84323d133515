"""Random streams of known elements, with random stages between the sources and a grouping."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeAlias

import attrs
from beam_runner_model import triggers as t
from beam_runner_model.strategy import AccumulationMode, MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import IntervalWindow, Window

from beam_runner_engine.keyed.merging import merge_overlapping_intervals

GAP = 6
CUSTOM = OpaqueWindows("sessions of several gaps", b"")
"""Custom windows that start at an element, like sessions, with a length that depends on the
element.
"""
LAST = 80


@attrs.frozen
class Member:
    """Element of a source. The element is on time if its timestamp isn't behind the watermark that
    the source reported before.
    """

    ident: int
    key: int
    time: Timestamp
    on_time: bool = True


@attrs.frozen
class Element:
    """Element inside a job: a member, or several members of a key and window after combining."""

    key: int
    time: Timestamp
    members: tuple[Member, ...]
    window: Window | None = None

    @property
    def on_time(self) -> tuple[Timestamp, ...]:
        """Timestamps of the on-time members."""
        return tuple(member.time for member in self.members if member.on_time)


Step: TypeAlias = tuple[tuple[Member, ...], Timestamp]
"""Step of a source: elements, and the watermark that the source reports after them."""


@attrs.frozen
class StreamJob:
    """Stream and the stages between its sources and the grouping.

    Attributes:
        sources: the steps of each source, which form its restriction.
        hops: the number of stages before the stage that assigns windows.
        joined: whether all sources share these stages.
        lifts: whether the last stage before the grouping combines the elements of a bundle.
        sided: whether this stage reads a slower side input, window by window.
        shift: the number of ms by which user code moves timestamps, without changing windows.
        fanned: whether the job groups parts of each key before it groups the key.
    """

    strategy: WindowingStrategy
    sources: tuple[tuple[tuple[Step, ...], ...], ...]
    hops: int = 0
    windows_early: bool = True
    lifts: bool = False
    joined: bool = False
    sided: bool = False
    shift: int = 0
    fanned: bool = False

    def members(self) -> Iterator[Member]:
        """Yields all elements of all sources."""
        for source in self.sources:
            for steps in source:
                for members, _ in steps:
                    yield from members

    def windows_of(self, member: Member) -> tuple[Window, ...]:
        """Returns the windows that an element is assigned to."""
        if self.strategy.window_fn == CUSTOM:
            return (IntervalWindow(member.time, member.time + GAP + member.ident % 3),)
        return tuple(assign_windows(self.strategy.window_fn, member.time))


class OverlapMerger:
    """Merger of overlapping windows, for windows that the engine can't decode."""

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[Mapping[Window, Window]]:
        answers: list[Mapping[Window, Window]] = []
        for windows in windows_of_keys:
            spans = [(w.start, w.end, w) for w in windows if isinstance(w, IntervalWindow)]
            answers.append(
                {
                    member: IntervalWindow(start, end)
                    for start, end, members in merge_overlapping_intervals(spans)
                    for member in members
                }
            )
        return answers


WINDOW_FNS: Mapping[str, WindowFn] = {
    "global": GlobalWindows(),
    "fixed": FixedWindows(10),
    "sliding": SlidingWindows(20, 10),
    "sessions": Sessions(GAP),
    "custom": CUSTOM,
}
MERGING = frozenset({"sessions", "custom"})
TRIGGERS: Mapping[str, t.Trigger] = {
    "default": t.DefaultTrigger(),
    "early and late": t.AfterEndOfWindow(
        early=t.Repeatedly(t.AfterProcessingTime((t.Delay(3),))), late=t.AfterCount(1)
    ),
    "each": t.Repeatedly(t.AfterCount(1)),
}


def strategy_of(
    windows: str,
    combiner: TimestampCombiner,
    trigger: str = "default",
    mode: AccumulationMode = AccumulationMode.DISCARDING,
    lateness: int = 0,
) -> WindowingStrategy:
    """Returns the strategy with the named windows of `WINDOW_FNS` and the named trigger of
    `TRIGGERS`.
    """
    return WindowingStrategy(
        window_fn=WINDOW_FNS[windows],
        window_coder=WindowCoder.GLOBAL if windows == "global" else WindowCoder.INTERVAL,
        merge_status=MergeStatus.NEEDS_MERGE if windows in MERGING else MergeStatus.NON_MERGING,
        trigger=TRIGGERS[trigger],
        accumulation_mode=mode,
        allowed_lateness=lateness,
        timestamp_combiner=combiner,
    )


def random_job(
    rng: Random, strategy: WindowingStrategy, *, lifts: bool, late: bool = False
) -> StreamJob:
    """Returns a job with random sources and random stages before its grouping.

    Merging windows are never grouped twice, and timestamps stay in their windows. By Beam's model,
    such pipelines have different results in streams and batches.
    """
    idents = iter(range(1_000))
    sided = rng.random() < 0.2
    sources = tuple(
        tuple(tuple(_steps(rng, idents, late=late)) for _restriction in range(rng.randint(1, 2)))
        for _source in range(rng.randint(1, 2))
    )
    return StreamJob(
        strategy,
        sources,
        hops=rng.randint(1, 2) if sided else rng.randint(0, 2),
        windows_early=sided or rng.random() < 0.5,
        lifts=lifts,
        joined=rng.random() < 0.3,
        sided=sided,
        shift=0 if strategy.needs_merge else rng.choice((0, 0, 7)),
        fanned=not strategy.needs_merge and rng.random() < 0.3,
    )


def _steps(rng: Random, idents: Iterator[int], *, late: bool) -> Iterator[Step]:
    """Yields steps with the highest allowed watermark, or a higher watermark if elements can be
    late.
    """
    times = sorted(rng.randrange(LAST) for _ in range(rng.randint(1, 14)))
    # Timestamps are slightly out of order, as in real sources.
    for place in range(len(times) - 1):
        if rng.random() < 0.3:
            times[place], times[place + 1] = times[place + 1], times[place]
    watermark = 0
    while times:
        count = rng.randint(1, 3)
        now, times = times[:count], times[count:]
        members = tuple(
            Member(next(idents), rng.randrange(3), time, on_time=time >= watermark) for time in now
        )
        ahead = rng.randint(0, 15) if late and rng.random() < 0.4 else 0
        watermark = max(watermark, min(times) + ahead) if times else MAX_TIMESTAMP
        yield members, watermark


def alike(elements: Iterable[Element]) -> dict[tuple[int, Window | None], list[Element]]:
    """Returns the elements by key and window."""
    found: dict[tuple[int, Window | None], list[Element]] = {}
    for element in elements:
        found.setdefault((element.key, element.window), []).append(element)
    return found
