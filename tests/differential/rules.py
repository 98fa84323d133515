"""Allowed differences, at most five, each with its reason.

The module fixes errors of the oracle while it runs, so that all outputs are still compared. If the
oracle crashes, the result is no difference and needs no rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from apache_beam.coders.coders import TimestampPrefixingOpaqueWindowCoder
from apache_beam.runners.portability.fn_api_runner import execution
from apache_beam.transforms.timeutil import OutputAtEndOfWindowImpl
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

_END_OF_GLOBAL_WINDOW = re.compile(r"(92233719504\d\d)(\.?)77[345](000|999)?\b")
_BEFORE_TIME = re.compile(r"\[(-92233720[34]\d{4}\.\d+)")
_BEGINNING = float(MIN_TIMESTAMP)
_on_the_oracle = False
_ON_TIME_NOT_LAST, _ON_TIME_AND_LAST = "pane 1 0 0 10", "pane 1 0 0 11"


@contextmanager
def mended_oracle() -> Iterator[None]:
    """Applies rules 1, 2, 3 and 5 in this process for the block, and separates the buffers of timers."""
    context, grouping = execution.FnApiRunnerExecutionContext, execution.WindowGroupingBuffer
    commit, begin = context.commit_side_inputs_to_state, grouping.__init__
    bundles = execution.BundleContextManager
    with ExitStack() as mended:
        enter = mended.enter_context
        enter(mock.patch.object(context, "commit_side_inputs_to_state", _anew(commit)))
        enter(mock.patch.object(grouping, "__init__", _of_custom_windows(begin)))
        enter(mock.patch.object(bundles, "get_buffer", _of_one_transform(bundles.get_buffer)))
        enter(mock.patch.object(OutputAtEndOfWindowImpl, "assign_output_time", last_moment))
        enter(mock.patch(f"{__name__}._on_the_oracle", True))
        yield


def _of_one_transform(get_buffer: Callable[..., Any]) -> Callable[..., Any]:
    """Separates timers of transforms that use the same family name. Beam puts them in one buffer, read
    by the first coder.

    With other keys, the shared buffer fails the job or, in C, crashes the process:
    https://github.com/apache/beam/issues/21995.
    """

    def buffer_of(bundles: Any, buffer_id: bytes, transform_id: str) -> Any:
        kind, family = execution.split_buffer_id(buffer_id)
        if kind != "timers":
            return get_buffer(bundles, buffer_id, transform_id)
        buffers = bundles.execution_context.timer_buffers
        if (transform_id, family) not in buffers:
            coder = bundles.get_timer_coder_impl(transform_id, family)
            buffers[transform_id, family] = execution.ListBuffer(coder)
        return buffers[transform_id, family]

    return buffer_of


def _anew(commit: Callable[..., None]) -> Callable[..., None]:
    """1. The oracle commits a side input again after each bundle of the stage that makes it.

    So a stage of several bundles (a Flatten, timers, a deferred splittable DoFn) multiplies the
    side input, unless it is also a main input, which is committed bundle by bundle. For a key of a
    multimap, the oracle returns only the values of the last bundle.
    """
    told: dict[bytes, list[bytes]] = defaultdict(list)
    lengths: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def commit_in_place_of_the_last(context: Any, side_inputs: Any) -> None:
        state, begun, buffers = context.state_servicer, set(), context.pcoll_buffers
        append = state.append_raw
        names = {buffer_id for buffer_id, _ in side_inputs.values()}
        for name in names & buffers.keys():
            data = list(buffers[name])
            told[name] += data[lengths.get(buffers[name], 0) :]
            lengths[buffers[name]] = len(data)

        def write(key: Any, data: bytes) -> Any:
            name = key.SerializeToString(deterministic=True)
            if name not in begun:
                begun.add(name)
                state.clear(key)
            return append(key, data)

        whole = {name: execution.ListBuffer(None) for name in names}
        for name, buffer in whole.items():
            for data in told[name]:
                buffer.append(data)
        with mock.patch.object(state, "append_raw", write), mock.patch.dict(buffers, whole):
            commit(context, side_inputs)

    return commit_in_place_of_the_last


def _of_custom_windows(begin: Callable[..., None]) -> Callable[..., None]:
    """2. A side input in windows with a custom coder is always empty.

    The oracle stores it by the encoded window with a preceding time and length, and requests it
    without them.
    """

    class AsAskedFor:
        def encode(self, window: Any) -> bytes:
            encoded: bytes = window.encoded_window
            return encoded

    def init(buffer: Any, access_pattern: Any, coder: Any) -> None:
        begin(buffer, access_pattern, coder)
        if isinstance(buffer._window_coder, TimestampPrefixingOpaqueWindowCoder):
            buffer._window_coder = AsAskedFor()

    return init


def last_moment(combiner: Any, window: Any, unused_time: Any) -> Timestamp:
    """3. A window's last timestamp in Python is a microsecond before its end; in the model, a
       millisecond.

    The encoding truncates fractions of a millisecond towards zero, so before 1970 panes were at
    their windows' ends, beyond the windows. See :func:`told` for the global window.
    """
    if isinstance(window, GlobalWindow):
        return window.max_timestamp()
    # The oracle takes the duration of custom windows from their coder, to a millisecond.
    return Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)


def told(text: object) -> str:
    """3. The global window ends a millisecond early in Python, which takes its last timestamp for its
       end.

    So panes of the global window have an earlier timestamp on the oracle, and windows that are
    assigned later start at this timestamp. Beam's coder moves the start of windows before the
    minimum timestamp, so their start depends on the ends of stages. This function makes all texts
    that contain timestamps and windows.
    """
    ended = _END_OF_GLOBAL_WINDOW.sub(r"\1\g<2>775", str(text))
    return _BEFORE_TIME.sub(lambda start: f"[{max(float(start[1]), _BEGINNING)}", ended)


def of_the_oracle(row: str) -> str:
    """4. Panes of the default trigger, which never finishes, are not the last pane, because late
       elements can follow.

    In bounded pipelines all elements have arrived when the window ends, as in the only pane of the
    global window.
    """
    if row.endswith(_ON_TIME_NOT_LAST):
        return row.removesuffix(_ON_TIME_NOT_LAST) + _ON_TIME_AND_LAST
    return row


def may_pause() -> bool:
    """5. Event-time timers fire while a splittable DoFn of their stage still has deferred work.

    So state is read too early. On the oracle these DoFns defer nothing.
    """
    return not _on_the_oracle


def on_the_oracle() -> bool:
    """5. The oracle doesn't fire timers in order of time; processing-time timers and triggers fail its
       job.

    If this matters, elements bypass such steps on the oracle, through plain groups or a model that
    computes the output of the steps.
    """
    return _on_the_oracle
