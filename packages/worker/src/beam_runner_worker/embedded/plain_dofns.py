"""Tells the DoFns whose ``process`` is the same function of a value for all elements of a run.

Where it asks for nothing but the value, constants and side inputs, only windows matter besides: side
inputs are read in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import attrs
from apache_beam.internal import util
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import BoundedWindow, GlobalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from beam_runner_worker.embedded.assign_windows import WindowsOf, windows_by_time
from beam_runner_worker.embedded.beam_versions import CHECKS_RESULTS, output_handler
from beam_runner_worker.embedded.dofn_runners import MadeRunner
from beam_runner_worker.embedded.runs import in_each_window

_EVERYWHERE = GlobalWindow()
_MAP = core.Map(lambda value, more: value, None).fn.process.__code__
"""Of what ``beam.Map`` makes of a function of more than the element."""


class Process:
    """The ``process`` of a DoFn, with what it is given besides the element.

    Args:
        call: the method.
        args: what follows the element, with Beam's placeholders for side inputs.
        kwargs: the same, by name.
        side_inputs: for each placeholder; gives the value for a window.
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
        self._mapped = _mapped_by(call)
        self._args = args
        self._kwargs = kwargs
        self._side_inputs = side_inputs
        self._last: tuple[BoundedWindow, Callable[[Any], Any]] | None = None

    def forget(self) -> None:
        """Keeps no side input: to be called between bundles, which may see others."""
        self._last = None

    def apart(self, like: WindowedValue) -> Sequence[WindowedValue]:
        """An element as it is processed: in each of its windows, if they may see other side inputs.

        In which pane it was is not told then, as Beam does not.
        """
        if not self._by_window or len(like.windows) == 1:
            return (like,)
        return in_each_window(like, PANE_INFO_UNKNOWN)

    def function_for(self, like: WindowedValue) -> Callable[[Any], Any]:
        """A function of the value alone, for elements like this one, which has been set apart."""
        window = like.windows[0] if self._by_window else _EVERYWHERE
        if self._last is None or self._last[0] is not window:
            self._last = (window, self._bound(window))
        return self._last[1]

    def _bound(self, window: BoundedWindow) -> Callable[[Any], Any]:
        values = [side_input[window] for side_input in self._side_inputs]
        call, mapped = self._call, self._mapped
        args, kwargs = util.insert_values_in_args(self._args, self._kwargs, values)
        if not args and not kwargs:
            return call
        if len(args) > 1 or kwargs:
            return lambda value: call(value, *args, **kwargs)
        only = args[0]
        if mapped is not None:
            return lambda value: [mapped(value, only)]
        return lambda value: call(value, only)


def _mapped_by(call: Callable[..., Any]) -> Callable[..., Any] | None:
    """The user's function in what ``beam.Map`` makes of it: half of the time goes into the latter."""
    if not isinstance(call, FunctionType) or call.__code__ != _MAP or not call.__closure__:
        return None
    mapped: Callable[..., Any] = call.__closure__[0].cell_contents
    return mapped


@attrs.frozen
class PlainDoFn:
    """A DoFn that takes runs: its ``process`` is a function of a value, the same for all of a run.

    Attributes:
        function_for: what gives the results of a value, for elements like its argument.
        receiver: of the main output.
        handle: handles results one by one, each for an element like the first argument.
        check: refuses results that can't be meant so; to be called with the first.
        windows_of: the windows of results by their time, if it decides.
    """

    function_for: Callable[[WindowedValue], Callable[[Any], Any]]
    receiver: operations.ConsumerSet
    handle: Callable[[WindowedValue, Any], None]
    check: Callable[[WindowedValue, Any], None]
    windows_of: WindowsOf | None


def _asks(default: Any) -> bool:
    """Whether the default of a parameter asks for what Beam gives: times, state, restrictions."""
    kind = default if isinstance(default, type) else type(default)
    return issubclass(kind, core._DoFnParam)


def plain_do_fn(
    made: MadeRunner, function_for: Callable[[WindowedValue], Callable[[Any], Any]]
) -> PlainDoFn | None:
    """A DoFn as one that takes runs; None if there is more to it than this function."""
    fn, receivers = made.fn, made.receivers
    if (
        any(map(_asks, made.defaults))
        or fn._process_batch_defined
        or not fn._process_defined
        or getattr(made.process, "_beam_yields_batches", False)
        or None not in receivers
    ):
        return None
    window_fn = made.windowing.windowfn

    def handler(check: bool) -> Callable[[WindowedValue, Any], None]:
        handler = output_handler(window_fn, receivers[None], receivers, check=check)
        handle: Callable[[WindowedValue, Any], None] = handler.handle_process_outputs
        return handle

    refuses = CHECKS_RESULTS and not isinstance(fn, core.CallableWrapperDoFn)

    def check(like: WindowedValue, results: Any) -> None:
        # A user's DoFn that returns one of these is a mistake; a function for FlatMap may.
        if refuses and isinstance(results, (str, bytes, dict)):
            handler(True)(like, results)

    return PlainDoFn(
        function_for, receivers[None], handler(False), check, windows_by_time(window_fn)
    )
