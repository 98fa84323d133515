"""TestStreams: scripted sources that take a step whenever nothing else in the job can move."""

from __future__ import annotations

from beam_runner_model.times import MAX_TIMESTAMP, plus

from beam_runner_engine.scheduler.clock import advance_clock
from beam_runner_engine.scheduler.delivery import deliver
from beam_runner_engine.scheduler.graph import test_stream_producer
from beam_runner_engine.scheduler.specs import AddElements, AdvanceWatermark
from beam_runner_engine.scheduler.state import SchedulerState
from beam_runner_engine.scheduler.watermarks import set_producer


def scripts_ended(state: SchedulerState) -> bool:
    """Whether all TestStreams have taken all their steps; True if there are none."""
    return all(script.ended for script in state.scripts)


def take_step(state: SchedulerState) -> bool:
    """Takes one step of one TestStream, those of a job in turn; False if there is none left.

    When all have ended and the job's clock is scripted, nobody would ever advance it again: then
    the step is to the next wake-up.
    """
    count = len(state.scripts)
    for turn in range(count):
        number = (state.script_turn + turn) % count
        if not state.scripts[number].ended:
            state.script_turn = number + 1
            _step(state, number)
            return True
    if state.scripted_clock and state.clock_wakes:
        advance_clock(state, state.clock_wakes.min())
        return True
    return False


def _step(state: SchedulerState, number: int) -> None:
    script, spec = state.scripts[number], state.graph.test_streams[number]
    if script.next_step == len(spec.steps):
        end_script(state, number)
        return
    step = spec.steps[script.next_step]
    script.next_step += 1
    if isinstance(step, AddElements):
        deliver(state, step.collection, step.data)
    elif isinstance(step, AdvanceWatermark):
        collection = state.collections[step.collection]
        set_producer(state, collection, test_stream_producer(number), step.watermark)
    else:
        advance_clock(state, plus(state.now, step.duration))


def end_script(state: SchedulerState, number: int) -> None:
    """Ends a TestStream: the watermarks of its outputs go to the end of time."""
    script, spec = state.scripts[number], state.graph.test_streams[number]
    script.ended = True
    for step in spec.steps[script.next_step :]:
        if isinstance(step, AddElements):
            state.released.append(step.data)
    for name in spec.outputs:
        set_producer(state, state.collections[name], test_stream_producer(number), MAX_TIMESTAMP)
