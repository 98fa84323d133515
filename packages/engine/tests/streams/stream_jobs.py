"""Streams of known elements, and the ways in which a runner may carry them to a grouping."""

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

from beam_runner_engine.keyed.merging import sweep

GAP = 6
CUSTOM = OpaqueWindows("sessions of several gaps", b"")
"""Windows that begin with an element, as sessions do, and whose length depends on the element."""
LAST = 80


@attrs.frozen
class Member:
    """An element of a source. It is on time if the source had not promised to be beyond its time."""

    ident: int
    key: int
    time: Timestamp
    on_time: bool = True


@attrs.frozen
class Element:
    """What goes through a job: a member, or several of a key and window that were combined."""

    key: int
    time: Timestamp
    members: tuple[Member, ...]
    window: Window | None = None

    @property
    def on_time(self) -> tuple[Timestamp, ...]:
        """The times of the members that are on time."""
        return tuple(member.time for member in self.members if member.on_time)


Step: TypeAlias = tuple[tuple[Member, ...], Timestamp]
"""Elements of a source, and the watermark that it reports behind them."""


@attrs.frozen
class StreamJob:
    """A stream and its way.

    `sources` have restrictions, which are steps. Elements get their windows where they are read, or
    behind `hops` stages, which all sources share if they are `joined`. The last stage before the
    grouping combines what is alike in a bundle if the job `lifts`, and reads a slower side input,
    window by window, if it is `sided`. User code moves elements by `shift` ms, and leaves their
    windows. A job that is `fanned` groups parts of each key before it groups the key.
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
        """All elements of all sources."""
        for source in self.sources:
            for steps in source:
                for members, _ in steps:
                    yield from members

    def windows_of(self, member: Member) -> tuple[Window, ...]:
        """The windows that an element is assigned to."""
        if self.strategy.window_fn == CUSTOM:
            return (IntervalWindow(member.time, member.time + GAP + member.ident % 3),)
        return tuple(assign_windows(self.strategy.window_fn, member.time))


class OverlapMerger:
    """Merges windows that overlap, for windows that the engine knows nothing about."""

    def merge(self, windows_of_keys: Sequence[Collection[Window]]) -> list[Mapping[Window, Window]]:
        answers: list[Mapping[Window, Window]] = []
        for windows in windows_of_keys:
            spans = [(w.start, w.end, w) for w in windows if isinstance(w, IntervalWindow)]
            answers.append(
                {
                    member: IntervalWindow(start, end)
                    for start, end, members in sweep(spans)
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
    """The strategy with these windows of `WINDOW_FNS` and this trigger of `TRIGGERS`."""
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
    """A job with random sources and a random way to its grouping.

    Windows that merge are neither grouped twice nor left by their elements: what comes of these in a
    stream is not what comes of them in a batch, by the model.
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
        shift=0 if strategy.merges else rng.choice((0, 0, 7)),
        fanned=not strategy.merges and rng.random() < 0.3,
    )


def _steps(rng: Random, idents: Iterator[int], *, late: bool) -> Iterator[Step]:
    """Steps whose watermark is as far as it may be, or further where elements may be late."""
    times = sorted(rng.randrange(LAST) for _ in range(rng.randint(1, 14)))
    # Not quite in order, as in real sources.
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
    """Elements by their key and window."""
    found: dict[tuple[int, Window | None], list[Element]] = {}
    for element in elements:
        found.setdefault((element.key, element.window), []).append(element)
    return found
