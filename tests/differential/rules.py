"""The differences that are allowed, five at the most, each with its reason.

Where the oracle is wrong it is mended while it runs, so that still all is compared. So it is, too, where
it ends with its process: no difference, and no rule.
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
    """Rules 1, 2, 3 and 5 are in force within it, in this process, and timers have buffers of their own."""
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
    """Timers of all transforms that call a family the same are in one buffer, read by the first one's coder.

    What that makes of other keys ends the job or, in C, the process:
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
    """1. What a side input reads is committed again after each bundle of the stage that makes it.

    So a stage of several bundles (a Flatten, timers, what a splittable DoFn put off) multiplies it, but
    where it is a main input, too: then it is committed bundle by bundle. And of the values of a key in a
    multimap only those of the last bundle are seen.
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
    """2. A side input in windows with a coder of the user's is always empty.

    It is filed under what the coder makes with a time and a length before it, and asked for without.
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
    """3. A window's last moment in Python is a microsecond before its end; in the model, a millisecond.

    Encoding cuts off towards zero what is below a millisecond, so before 1970 panes were at their
    windows' ends, beyond them. See :func:`told` for the global window.
    """
    if isinstance(window, GlobalWindow):
        return window.max_timestamp()
    # Windows of the user's are as long, to the oracle, as their coder says: to a millisecond.
    return Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)


def told(text: object) -> str:
    """3. The global window ends a millisecond early in Python, which takes its last moment for its end.

    So panes of the global window have an earlier time on the oracle, and windows made of it begin
    there. And windows that begin before all time do so until Beam's coder has had them, which moves their
    start: that is up to where stages end. Texts with times and windows in them are made by this.
    """
    ended = _END_OF_GLOBAL_WINDOW.sub(r"\1\g<2>775", str(text))
    return _BEFORE_TIME.sub(lambda start: f"[{max(float(start[1]), _BEGINNING)}", ended)


def of_the_oracle(row: str) -> str:
    """4. Panes of the default trigger, which never finishes, are not the last: more could come late.

    In bounded pipelines all has come when the window ends, as in the only pane of the global window.
    """
    if row.endswith(_ON_TIME_NOT_LAST):
        return row.removesuffix(_ON_TIME_NOT_LAST) + _ON_TIME_AND_LAST
    return row


def may_pause() -> bool:
    """5. Event timers ring while a splittable DoFn of their stage still has what it put off.

    So state is told of too early. On the oracle these DoFns put nothing off.
    """
    return not _on_the_oracle


def on_the_oracle() -> bool:
    """5. Nor do timers ring by time there; those of the clock fail the job, as triggers of the clock do.

    Where that matters, elements go past such steps on the oracle, through plain groups or a model that
    says what comes of them.
    """
    return _on_the_oracle
