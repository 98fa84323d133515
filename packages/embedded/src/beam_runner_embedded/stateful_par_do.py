"""ParDo operation for DoFns with state and timers, which reuses the state and timer objects for
consecutive elements of a key.

Beam's code resolves each parameter of ``process`` again for each element. The runner passes
elements key by key, so most arguments are the same as for the previous element. For a DoFn with a
bag, a value, a timer and a hundred elements of each key, an element takes 1,600 ns instead of 8,400
ns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from apache_beam.transforms import core, userstate
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_embedded.dofn_runners import DoFnRunnerArguments
from beam_runner_embedded.par_do import ElementRunParDo
from beam_runner_embedded.plain_dofns import PlainDoFn, make_plain_do_fn
from beam_runner_embedded.runs import ElementRunLengthController, is_mutable_value
from beam_runner_embedded.user_state import EQUAL_IF_ENCODED_EQUAL

Argument = Callable[[Any, WindowedValue], Any]
"""Function that returns the argument for a parameter of ``process``. It receives the key, and a
windowed value with the element's timestamp, windows and pane.
"""


class StatefulParDo(ElementRunParDo):
    """Beam's ParDo operation for a stateful DoFn. If the operation supports all parameters of the
    DoFn, it processes many elements in one call.

    The operation processes each single element immediately, without collecting a run. The runner
    needs the element's changes of state and timers to choose the next input.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Emit mutable objects one by one, because an emitted object is often part of the key's
        # state and changes later.
        self._output_pace = ElementRunLengthController(goes_alone=is_mutable_value)

    def setup(self, data_sampler: Any = None) -> None:
        """Sets up the DoFn, and decides whether the operation can process runs of elements."""
        super().setup(data_sampler)
        if self.takes_runs:
            self.process = self._process_single_element

    def _process_single_element(self, element: WindowedValue) -> None:
        self._process_values(element, [element.value])

    def _convert_to_plain_do_fn(self, made: DoFnRunnerArguments) -> PlainDoFn | None:
        assert made.user_state is not None
        arguments = [_make_argument_getter(made.user_state, default) for default in made.defaults]
        known = [argument for argument in arguments if argument is not None]
        if made.args or made.kwargs or len(known) < len(arguments):
            return None
        process = made.process

        def make_value_function(like: WindowedValue) -> Callable[[Any], Any]:
            return _make_function_of_key_and_value(process, known, like)

        return make_plain_do_fn(attrs.evolve(made, defaults=[]), make_value_function)


def _make_function_of_key_and_value(
    process: Callable[..., Any], arguments: Sequence[Argument], like: WindowedValue
) -> Callable[[Any], Any]:
    """Returns a function that calls ``process`` for an element with the timestamp, windows and pane of
    ``like``. The function computes the state and timer arguments only if the key changes.
    """
    key: Any = None
    kind: type | None = None
    given: list[Any] = []

    def process_element(element: Any) -> Any:
        nonlocal key, kind, given
        this = element[0]
        if type(this) is not kind or this != key:
            given = [argument(this, like) for argument in arguments]
            key, kind = this, type(this) if type(this) in EQUAL_IF_ENCODED_EQUAL else None
        return process(element, *given)

    return process_element


def _make_argument_getter(context: userstate.UserStateContext, default: Any) -> Argument | None:
    """Returns a function that supplies the argument for a parameter with this default; None if only
    Beam's code can supply it.
    """
    if isinstance(default, core.DoFn.StateParam):
        state = default.state_spec
        return lambda key, like: context.get_state(state, key, like.windows[0])
    if isinstance(default, core.DoFn.TimerParam):
        timer, get = default.timer_spec, context.get_timer
        return lambda key, like: get(timer, key, like.windows[0], like.timestamp, like.pane_info)
    for parameter, argument in _OF_ALL_ALIKE:
        if parameter == default:
            return argument
    return None


_OF_ALL_ALIKE: tuple[tuple[Any, Argument], ...] = (
    (core.DoFn.KeyParam, lambda key, like: key),
    (core.DoFn.WindowParam, lambda key, like: like.windows[0]),
    (core.DoFn.TimestampParam, lambda key, like: like.timestamp),
    (core.DoFn.PaneInfoParam, lambda key, like: like.pane_info),
)
