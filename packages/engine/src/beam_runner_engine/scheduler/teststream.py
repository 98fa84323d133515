"""TestStreams: scripted sources that take a step whenever no other work of the job can proceed."""

from __future__ import annotations

from beam_runner_model.times import MAX_TIMESTAMP, add_clamped_duration

from beam_runner_engine.scheduler.clock import advance_clock
from beam_runner_engine.scheduler.delivery import deliver_data
from beam_runner_engine.scheduler.graph import get_test_stream_producer
from beam_runner_engine.scheduler.specs import AddElements, AdvanceWatermark
from beam_runner_engine.scheduler.state import SchedulerState
from beam_runner_engine.scheduler.watermarks import set_producer_watermark


def have_test_streams_ended(state: SchedulerState) -> bool:
    """Returns whether all TestStreams have finished; True for a job without TestStreams."""
    return all(script.ended for script in state.scripts)


def take_test_stream_step(state: SchedulerState) -> bool:
    """Takes one step of the next TestStream, and returns False if no step remains.

    If all TestStreams have finished and the clock is scripted, no event can advance the clock. The
    step then advances the clock to the next wake-up.
    """
    count = len(state.scripts)
    for turn in range(count):
        number = (state.script_turn + turn) % count
        if not state.scripts[number].ended:
            state.script_turn = number + 1
            _run_test_stream_step(state, number)
            return True
    if state.scripted_clock and state.clock_wakes:
        advance_clock(state, state.clock_wakes.get_earliest_time())
        return True
    return False


def _run_test_stream_step(state: SchedulerState, number: int) -> None:
    script, spec = state.scripts[number], state.graph.test_streams[number]
    if script.next_step == len(spec.steps):
        end_test_stream(state, number)
        return
    step = spec.steps[script.next_step]
    script.next_step += 1
    if isinstance(step, AddElements):
        deliver_data(state, step.collection, step.data)
    elif isinstance(step, AdvanceWatermark):
        collection = state.collections[step.collection]
        set_producer_watermark(state, collection, get_test_stream_producer(number), step.watermark)
    else:
        advance_clock(state, add_clamped_duration(state.now, step.duration))


def end_test_stream(state: SchedulerState, number: int) -> None:
    """Ends a TestStream: advances the watermarks of its outputs to the maximum timestamp."""
    script, spec = state.scripts[number], state.graph.test_streams[number]
    script.ended = True
    for step in spec.steps[script.next_step :]:
        if isinstance(step, AddElements):
            state.released.append(step.data)
    for name in spec.outputs:
        set_producer_watermark(
            state, state.collections[name], get_test_stream_producer(number), MAX_TIMESTAMP
        )
