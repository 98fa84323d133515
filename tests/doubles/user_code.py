"""User code with state, driven by the input of a harness for a stateful bundle, as function calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder, WindowedValueCoder
from apache_beam.coders.coders import IntervalWindowCoder as Intervals
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils import windowed_value
from beam_runner_data.grouping.key_runs import KeySortedElements, sort_by_key
from beam_runner_data.rows.columns import build_batch
from beam_runner_data.rows.refs import Segment
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_model.chunks import (
    ElementChunk,
    FlushBarrier,
    InputChunk,
    KeyedChunk,
    StageTimer,
    StateCell,
    TimerChunk,
)
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.window_coders import WindowCoder, encode_window
from beam_runner_model.windows import IntervalWindow as EngineWindow
from beam_runner_planner.plan import StatefulPlan
from beam_runner_runtime.bundles.keyed import KeyedStoreProvider
from beam_runner_runtime.bundles.stateful import StatefulBundle
from beam_runner_runtime.bundles.user_state import ShardUserState
from beam_runner_runtime.channel.messages import RunBundle
from sample_buffers import STRATEGY
from small_plans import bundle_of

GLOBAL = b""
TRANSFORM = "Stateful"
NO_PANE = b"\x0f"


def window(start: int, end: int) -> bytes:
    """Returns an encoded interval window; times are in milliseconds."""
    return encode_window(EngineWindow(start, end))


@attrs.frozen
class Row:
    """Element whose value starts with its key of one byte."""

    value: bytes
    time: int = 0
    window: bytes = GLOBAL

    @property
    def key(self) -> bytes:
        """Key of the element."""
        return self.value[:1]


def batch(*rows: Row) -> pa.RecordBatch:
    """Returns rows as a stage writes them for a stateful stage."""
    values = [_coder(row.window).encode_nested(_windowed(row)) for row in rows]
    ends = [len(b"".join(values[: n + 1])) for n in range(len(values))]
    windows: Any = [row.window for row in rows]
    if len(set(windows)) == 1:
        windows = windows[0]
    keys = b"".join(row.key for row in rows)
    times = [row.time for row in rows]
    key_ends = range(1, len(rows) + 1)
    return build_batch(KeyedChunk(keys, key_ends, b"".join(values), ends, windows, times))


def _coder(encoded_window: bytes) -> Any:
    coder = Intervals() if encoded_window else GlobalWindowCoder()
    return WindowedValueCoder(BytesCoder(), coder).get_impl()


def _windowed(row: Row) -> Any:
    inside = Intervals().decode(row.window) if row.window else GlobalWindow()
    return windowed_value.create(row.value, row.time * 1000, (inside,))


def rows_of(chunk: ElementChunk, coder: WindowCoder) -> list[Row]:
    """Returns the elements of a chunk."""
    impl = _coder(GLOBAL if coder is WindowCoder.GLOBAL else b"any")
    stream: Any = create_InputStream(bytes(chunk.data))
    found = []
    for _ in range(chunk.count):
        element = impl.decode_from_stream(stream, True)
        (inside,) = element.windows
        encoded = Intervals().encode(inside) if isinstance(inside, IntervalWindow) else GLOBAL
        found.append(Row(element.value, element.timestamp.micros // 1000, encoded))
    assert stream.size() == 0
    return found


class UserCode:
    """Recorder of calls, in order; subclasses override the behavior.

    Attributes:
        calls: values of elements, and tags of timers; a blank for a flush.
        dropped: number of elements that its bundles dropped.
    """

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.state: ShardUserState
        self.dropped = 0

    def element(self, row: Row) -> None:
        """Processes an element."""

    def timer(self, timer: StageTimer) -> None:
        """Called when a timer fires."""

    def settle(self) -> None:
        """Called when all earlier input is processed."""

    def set(
        self,
        key: bytes,
        fire_at: int | None,
        tag: str = "",
        *,
        family: str = "event",
        place: bytes = GLOBAL,
        hold: int | None = None,
    ) -> None:
        """Sets a timer, or clears it."""
        self.state.set_timer(
            StageTimer(TRANSFORM, family, tag, key, (place,), fire_at, hold, NO_PANE)
        )

    def cell(self, name: str, key: bytes, place: bytes = GLOBAL) -> StateCell:
        """Returns a state cell of the transform."""
        return StateCell(TRANSFORM, name, place, key)

    def play(self, chunks: Iterable[InputChunk], coder: WindowCoder) -> None:
        """Processes the input of a harness."""
        for chunk in chunks:
            match chunk:
                case ElementChunk():
                    for row in rows_of(chunk, coder):
                        self.calls.append(row.value)
                        self.element(row)
                case TimerChunk(timers):
                    for timer in timers:
                        self.calls.append((timer.key, timer.tag or timer.family))
                        self.timer(timer)
                case FlushBarrier():
                    self.calls.append("")
                    self.settle()


def run(
    plan: StatefulPlan,
    code: UserCode,
    batches: Sequence[pa.RecordBatch] = (),
    *,
    strategy: WindowingStrategy = STRATEGY,
    stores: KeyedStoreProvider | None = None,
    state: tuple[Segment, ...] = (),
    begin: int = MIN_TIMESTAMP,
    end: int = MAX_TIMESTAMP,
    clock: int = 0,
    name: str = "bundle",
    merger: WindowMerger | None = None,
    parts: Callable[[Iterable[pa.RecordBatch]], Iterator[KeySortedElements]] = sort_by_key,
) -> tuple[Any, tuple[Segment, ...]]:
    """Runs a bundle. Returns the summary (holds and timers) of the key shard, and the shard's new
    state.
    """
    bundle = bundle_of(shard=0, input_watermark=begin, end_watermark=end, output_watermark=begin)
    order = RunBundle(attrs.evolve(bundle, processing_time=clock), name, state)
    stateful = StatefulBundle(plan, strategy, order, stores, merger, settling_is_dear=True)
    code.state = stateful.user_state
    code.play(stateful.read_chunks(batches, parts), strategy.window_coder)
    commit = stateful.commit_state(name)
    code.dropped += commit.dropped
    return commit.summary, () if commit.state is None else commit.state.segments
