"""Tests that timers behave like a plain list of timers."""

from __future__ import annotations

from typing import Any

from beam_runner_model.panes import NO_FIRING, encode_pane
from beam_runner_model.strategy import WindowingStrategy
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.records import decode_record
from beam_runner_engine.keyed.stateful_records import FiredTimer, StatefulSpec
from beam_runner_engine.keyed.timers import TimeDomain, Timer

from .stateful_host import KEY, Host, timer

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc"), st.integers(0, 20), st.booleans()),
        st.tuples(st.just("clear"), st.sampled_from("abc")),
        st.tuples(st.just("watermark"), st.integers(1, 5)),
        st.tuples(st.just("processing time"), st.integers(1, 5)),
        st.tuples(st.just("commit")),
    ),
    max_size=25,
)


@given(STEPS)
def test_timers_behave_like_a_plain_list(steps: list[tuple[Any, ...]]) -> None:
    """Uses the global window, which never expires, and a list as the model."""
    host = Host(StatefulSpec(WindowingStrategy()))
    model: dict[str, Timer] = {}
    now = CurrentTimes(0, 0)
    for step in steps:
        match step:
            case ("set", tag, time, processing):
                wanted = timer(time, tag, processing=processing, hold=time, window=b"")
                host.shard.set_timer(wanted)
                model[tag] = wanted
            case ("clear", tag):
                host.shard.clear_timer(KEY, b"", "f", tag)
                model.pop(tag, None)
            case ("commit",):
                host.commit()
                holds = sorted(t.hold for t in model.values() if t.hold is not None)
                assert [time for time, count in host.summary.holds for _ in range(count)] == holds
            case (kind, forward):
                if kind == "watermark":
                    now = CurrentTimes(now.watermark + forward, now.processing_time)
                else:
                    now = CurrentTimes(now.watermark, now.processing_time + forward)
                by_time = sorted(model.values(), key=lambda t: (t.fire_time, t.tag))
                events = [t for t in by_time if t.domain is TimeDomain.EVENT_TIME]
                others = [t for t in by_time if t.domain is TimeDomain.PROCESSING_TIME]
                due = [t for t in events if t.fire_time < now.watermark]
                due += [t for t in others if t.fire_time <= now.processing_time]
                assert host.run(now) == [FiredTimer(t) for t in due]
                for fired in due:
                    del model[fired.tag]


def test_timer_fired_in_its_bundle_is_not_written() -> None:
    host = Host(StatefulSpec(WindowingStrategy()))
    host.shard.set_timer(timer(5, "fires", window=b""))
    host.shard.set_timer(timer(6, "is cleared", window=b""))
    host.shard.clear_timer(KEY, b"", "f", "is cleared")
    host.shard.set_timer(timer(50, "waits", window=b""))
    assert len(host.run(CurrentTimes(10, 0))) == 1
    deltas = host.shard.finish_bundle().deltas
    (written,) = (delta for cell, delta in deltas.items() if cell.name == "~timers")
    assert len(written.added) == 1 and b"waits" in next(iter(written.added))


def test_timer_without_a_chain_is_stored_in_the_older_record_format() -> None:
    """Checks the format without a chain, because stores can contain records from before chains
    existed.
    """
    host = Host(StatefulSpec(WindowingStrategy()))
    host.shard.set_timer(timer(50, hold=40, window=b""))
    (written,) = (
        delta for cell, delta in host.shard.finish_bundle().deltas.items() if cell.name == "~timers"
    )
    ((record,),) = written.added.values()
    assert decode_record(record) == ("event time", 50, 40, encode_pane(NO_FIRING))
