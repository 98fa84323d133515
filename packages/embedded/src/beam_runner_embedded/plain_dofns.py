"""Detection of plain DoFns: DoFns whose ``process`` depends only on the value, timestamp, window and pane of
the element, constants and side inputs.

For a run of elements with the same header, such a ``process`` is one function of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import attrs
from apache_beam.internal import util
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import BoundedWindow, GlobalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from beam_runner_embedded.assign_windows import WindowAssigner, create_window_assigner
from beam_runner_embedded.beam_versions import CHECKS_RESULTS, create_output_handler
from beam_runner_embedded.dofn_runners import DoFnRunnerArguments
from beam_runner_embedded.row_code import make_row_mapper
from beam_runner_embedded.runs import copy_to_windows

_EVERYWHERE = GlobalWindow()
_MAPS = tuple(
    made.fn.process.__code__
    for made in (core.Map(lambda value: value), core.Map(lambda value, more: value, None))
)
"""Code objects of the wrappers that ``beam.Map`` creates: for a function of the element, and for a
function with more parameters.
"""


_Bound = tuple[BoundedWindow, Sequence[Any], Mapping[str, Any], Callable[[Any], Any] | None]
"""A window with the arguments for it, and ``process`` with these arguments if no other arguments exist."""

HeaderArgument = Callable[[WindowedValue], Any]
"""Function that returns the argument for a parameter of ``process``, for elements with a common
timestamp, windows and pane.
"""


def _get_window(like: WindowedValue) -> BoundedWindow:
    window: BoundedWindow = like.windows[0]
    return window


HEADER_ARGUMENTS: tuple[tuple[Any, HeaderArgument], ...] = (
    (core.DoFn.WindowParam, _get_window),
    (core.DoFn.TimestampParam, lambda like: like.timestamp),
    (core.DoFn.PaneInfoParam, lambda like: like.pane_info),
)
"""The parameters whose arguments depend only on the header of an element (timestamp, windows, pane)."""


class ProcessMethod:
    """Method ``process`` of a DoFn, with its arguments after the element.

    Args:
        call: the method.
        args: the arguments after the element, with Beam's placeholders for side inputs.
        kwargs: the keyword arguments of ``process``, or their placeholders.
        side_inputs: for each placeholder, a mapping from windows to values.
        of_header: the functions for the parameters in `HEADER_ARGUMENTS`, by the parameter's name.

    Attributes:
        maps: whether ``beam.Map`` created the DoFn, so that each value has exactly one result.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        side_inputs: Sequence[Any],
        of_header: Mapping[str, HeaderArgument] | None = None,
    ) -> None:
        self._of_header = of_header or {}
        self._by_window = _get_window in self._of_header.values() or not all(
            each.is_globally_windowed() for each in side_inputs
        )
        self._call = call
        self._mapped = _find_mapped_function(call)
        self.maps = self._mapped is not None
        self._map_rows = None if self._mapped is None else make_row_mapper(self._mapped)
        self._args = args
        self._kwargs = kwargs
        self._side_inputs = side_inputs
        self._last: _Bound | None = None

    def clear_side_inputs(self) -> None:
        """Drops the cached side inputs; called between bundles, because the next bundle may see other side inputs."""
        self._last = None

    def split_by_window(self, like: WindowedValue) -> Sequence[WindowedValue]:
        """Returns one header for each window, if the windows may see different side inputs; otherwise
        the given header.

        As in Beam, the headers for single windows have no pane.
        """
        if not self._by_window or len(like.windows) == 1:
            return (like,)
        return copy_to_windows(like, PANE_INFO_UNKNOWN)

    def make_value_function(self, like: WindowedValue) -> Callable[[Any], Any]:
        """Returns ``process`` as a function of only the value, for elements with the timestamp,
        windows and pane of ``like``, which is a result of :meth:`split_by_window`.

        If the DoFn ``maps``, the function takes a list of values and returns the list of their
        results.
        """
        window = like.windows[0] if self._by_window else _EVERYWHERE
        if self._last is None or self._last[0] is not window:
            values = [side_input[window] for side_input in self._side_inputs]
            args, kwargs = util.insert_values_in_args(self._args, self._kwargs, values)
            bound = None if self._of_header else self._bind_arguments(args, kwargs)
            self._last = (window, args, kwargs, bound)
        _, args, kwargs, bound = self._last
        if bound is None:
            found = {name: argument(like) for name, argument in self._of_header.items()}
            bound = self._bind_arguments(args, {**kwargs, **found})
        return bound

    def _bind_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Callable[[Any], Any]:
        call = self._call
        if self._map_rows is not None and not args and not kwargs:
            return self._map_rows
        if self._mapped is not None:
            return _make_mapper(self._mapped, args, kwargs)
        if not args and not kwargs:
            return call
        if len(args) > 1 or kwargs:
            return lambda value: call(value, *args, **kwargs)
        only = args[0]
        return lambda value: call(value, only)


def _find_mapped_function(call: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the user's function inside the wrapper of ``beam.Map``; None if the method isn't such a
    wrapper. A direct call avoids the overhead of the wrapper.
    """
    if not isinstance(call, FunctionType) or call.__code__ not in _MAPS or not call.__closure__:
        return None
    mapped: Callable[..., Any] = call.__closure__[0].cell_contents
    return mapped


def _make_mapper(
    mapped: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[[Iterable[Any]], list[Any]]:
    """Returns a function that takes values and returns the list of ``mapped(value)`` for each value.

    The function doesn't use ``map``, because a ``StopIteration`` from user code would end the
    iteration silently.
    """
    if not args and not kwargs:
        return lambda values: [mapped(value) for value in values]
    if len(args) > 1 or kwargs:
        return lambda values: [mapped(value, *args, **kwargs) for value in values]
    only = args[0]
    return lambda values: [mapped(value, only) for value in values]


@attrs.frozen
class PlainDoFn:
    """DoFn that can process many elements in one call, because its ``process`` is the same function of
    a value for all of these elements.

    Attributes:
        make_value_function: takes a header and returns a function that processes elements with this
            header. The returned function takes one value and returns its results. If the DoFn
            ``maps``, the returned function takes a list of values and returns one result for each
            value.
        maps: whether each value has one result.
        receiver: the receiver of the main output.
        handle: Beam's handler, which emits results one by one for an element with the given header.
        check: raises an error for results of an invalid type; called with the first results.
        windows_of: returns the windows of a timestamp; None if the window function isn't Beam's
            own.
    """

    make_value_function: Callable[[WindowedValue], Callable[[Any], Any]]
    maps: bool
    receiver: operations.ConsumerSet
    handle: Callable[[WindowedValue, Any], None]
    check: Callable[[WindowedValue, Any], None]
    windows_of: WindowAssigner | None


def _requests_parameter(default: Any) -> bool:
    """Returns True if the default of a parameter requests a value from Beam, such as a timestamp,
    state or a restriction.
    """
    kind = default if isinstance(default, type) else type(default)
    return issubclass(kind, core._DoFnParam)


def find_header_arguments(made: DoFnRunnerArguments) -> dict[str, HeaderArgument]:
    """Returns the functions for the parameters in `HEADER_ARGUMENTS`, by the parameter's name.

    Returns an empty dictionary if Beam could pass other arguments by position at these parameters.
    """
    before = len(made.names) - len(made.defaults) - 1
    most = 0 if isinstance(made.fn, core.CallableWrapperDoFn) else before
    if not made.defaults or len(made.args) > most:
        return {}
    found: dict[str, HeaderArgument] = {}
    for name, default in zip(made.names[-len(made.defaults) :], made.defaults, strict=True):
        for parameter, argument in HEADER_ARGUMENTS:
            if parameter == default and name not in made.kwargs:
                found[name] = argument
    return found


def make_plain_do_fn(
    made: DoFnRunnerArguments,
    make_value_function: Callable[[WindowedValue], Callable[[Any], Any]],
    *,
    maps: bool = False,
    given: int = 0,
) -> PlainDoFn | None:
    """Returns a DoFn in the form that processes runs of elements; None if its ``process`` isn't a function of values.

    Args:
        made: the DoFn.
        make_value_function: see `PlainDoFn`.
        maps: see `PlainDoFn`.
        given: number of requested parameters for which ``make_value_function`` passes arguments.
    """
    fn, receivers = made.fn, made.receivers
    if (
        sum(map(_requests_parameter, made.defaults)) > given
        or fn._process_batch_defined
        or not fn._process_defined
        or getattr(made.process, "_beam_yields_batches", False)
        or None not in receivers
    ):
        return None
    window_fn = made.windowing.windowfn

    def make_handler(check: bool) -> Callable[[WindowedValue, Any], None]:
        handler = create_output_handler(window_fn, receivers[None], receivers, check=check)
        handle: Callable[[WindowedValue, Any], None] = handler.handle_process_outputs
        return handle

    refuses = CHECKS_RESULTS and not isinstance(fn, core.CallableWrapperDoFn)

    def check_results(like: WindowedValue, results: Any) -> None:
        # A user's DoFn must not return these types, but a function for FlatMap may return them.
        if refuses and isinstance(results, (str, bytes, dict)):
            make_handler(True)(like, results)

    return PlainDoFn(
        make_value_function,
        maps,
        receivers[None],
        make_handler(False),
        check_results,
        create_window_assigner(window_fn),
    )
