"""Detection of DoFns whose ``process`` is the same function of a value for all elements of a run.

If it needs only the value, constants and side inputs, only windows matter in addition, because side
inputs are looked up by window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import attrs
from apache_beam.internal import util
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import BoundedWindow, GlobalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from beam_runner_worker.embedded.assign_windows import WindowAssigner, create_window_assigner
from beam_runner_worker.embedded.beam_versions import CHECKS_RESULTS, create_output_handler
from beam_runner_worker.embedded.dofn_runners import DoFnRunnerArguments
from beam_runner_worker.embedded.runs import copy_to_windows

_EVERYWHERE = GlobalWindow()
_MAPS = tuple(
    made.fn.process.__code__
    for made in (core.Map(lambda value: value), core.Map(lambda value, more: value, None))
)
"""The classes that ``beam.Map`` makes from a function of the element, and from a function with more parameters."""


class ProcessMethod:
    """The ``process`` method of a DoFn, with its arguments after the element.

    Args:
        call: the method.
        args: the arguments after the element, with Beam's placeholders for side inputs.
        kwargs: the keyword arguments of ``process``, or their placeholders.
        side_inputs: for each placeholder, a function that returns the value for a window.

    Attributes:
        maps: whether each value has one result, because ``beam.Map`` made the DoFn from a function.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        side_inputs: Sequence[Any],
    ) -> None:
        self._by_window = not all(each.is_globally_windowed() for each in side_inputs)
        self._call = call
        self._mapped = _find_mapped_function(call)
        self.maps = self._mapped is not None
        self._args = args
        self._kwargs = kwargs
        self._side_inputs = side_inputs
        self._last: tuple[BoundedWindow, Callable[[Any], Any]] | None = None

    def clear_side_inputs(self) -> None:
        """Forgets the side inputs. Call it between bundles, which may see different ones."""
        self._last = None

    def split_by_window(self, like: WindowedValue) -> Sequence[WindowedValue]:
        """Yields an element as it is processed: once for each of its windows, if they may see
        different side inputs.

        The pane is not set then, as in Beam.
        """
        if not self._by_window or len(like.windows) == 1:
            return (like,)
        return copy_to_windows(like, PANE_INFO_UNKNOWN)

    def make_value_function(self, like: WindowedValue) -> Callable[[Any], Any]:
        """Returns a function of the value alone, for elements like the given one, which is a result of
        :meth:`split_by_window`.

        If the DoFn ``maps``, the function takes many values and returns the list of their results.
        """
        window = like.windows[0] if self._by_window else _EVERYWHERE
        if self._last is None or self._last[0] is not window:
            self._last = (window, self._bind_arguments(window))
        return self._last[1]

    def _bind_arguments(self, window: BoundedWindow) -> Callable[[Any], Any]:
        values = [side_input[window] for side_input in self._side_inputs]
        call = self._call
        args, kwargs = util.insert_values_in_args(self._args, self._kwargs, values)
        if self._mapped is not None:
            return _make_mapper(self._mapped, args, kwargs)
        if not args and not kwargs:
            return call
        if len(args) > 1 or kwargs:
            return lambda value: call(value, *args, **kwargs)
        only = args[0]
        return lambda value: call(value, only)


def _find_mapped_function(call: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the user's function inside the wrapper of ``beam.Map``, which takes more time than many
    such functions.
    """
    if not isinstance(call, FunctionType) or call.__code__ not in _MAPS or not call.__closure__:
        return None
    mapped: Callable[..., Any] = call.__closure__[0].cell_contents
    return mapped


def _make_mapper(
    mapped: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Callable[[Iterable[Any]], list[Any]]:
    """Returns a function that calls the given one for each of many values.

    It doesn't use ``map``, which would take a ``StopIteration`` as the end of the values.
    """
    if not args and not kwargs:
        return lambda values: [mapped(value) for value in values]
    if len(args) > 1 or kwargs:
        return lambda values: [mapped(value, *args, **kwargs) for value in values]
    only = args[0]
    return lambda values: [mapped(value, only) for value in values]


@attrs.frozen
class PlainDoFn:
    """A DoFn that takes runs: its ``process`` is a function of a value, the same for all elements of a
    run.

    Attributes:
        make_value_function: takes an element and returns a function that processes elements with the same
            timestamp, windows and pane. That function takes one value and returns its results. If
            the DoFn ``maps``, it takes many values and returns one result for each.
        maps: whether each value has one result.
        receiver: the receiver of the main output.
        handle: handles results one by one, each for an element like the first argument.
        check: refuses results of a wrong type; called with the first results.
        windows_of: returns the windows of results by their timestamp, if the DoFn assigns windows.
    """

    make_value_function: Callable[[WindowedValue], Callable[[Any], Any]]
    maps: bool
    receiver: operations.ConsumerSet
    handle: Callable[[WindowedValue, Any], None]
    check: Callable[[WindowedValue, Any], None]
    windows_of: WindowAssigner | None


def _requests_parameter(default: Any) -> bool:
    """Returns whether the default of a parameter requests a value from Beam: timestamps, state, restrictions."""
    kind = default if isinstance(default, type) else type(default)
    return issubclass(kind, core._DoFnParam)


def make_plain_do_fn(
    made: DoFnRunnerArguments,
    make_value_function: Callable[[WindowedValue], Callable[[Any], Any]],
    *,
    maps: bool = False,
) -> PlainDoFn | None:
    """Returns a DoFn as one that takes runs; None if it is more than a function of values."""
    fn, receivers = made.fn, made.receivers
    if (
        any(map(_requests_parameter, made.defaults))
        or fn._process_batch_defined
        or not fn._process_defined
        or getattr(made.process, "_beam_yields_batches", False)
        or None not in receivers
    ):
        return None
    window_fn = made.windowing.windowfn

    def handler(check: bool) -> Callable[[WindowedValue, Any], None]:
        handler = create_output_handler(window_fn, receivers[None], receivers, check=check)
        handle: Callable[[WindowedValue, Any], None] = handler.handle_process_outputs
        return handle

    refuses = CHECKS_RESULTS and not isinstance(fn, core.CallableWrapperDoFn)

    def check(like: WindowedValue, results: Any) -> None:
        # A user's DoFn that returns one of these types is an error; a function for FlatMap may
        # return them.
        if refuses and isinstance(results, (str, bytes, dict)):
            handler(True)(like, results)

    return PlainDoFn(
        make_value_function,
        maps,
        receivers[None],
        handler(False),
        check,
        create_window_assigner(window_fn),
    )
