"""Access to the DoFn inside a Beam operation, and to the receivers of the DoFn's results.

Beam's compiled code hides the object that runs a DoFn. So this module records the arguments when
Beam creates that object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.transforms import core, userstate

from beam_runner_embedded.inspections import cache_inspections

_one_at_a_time = threading.RLock()


Receivers = dict[str | None, operations.ConsumerSet]
"""Receivers of the outputs of a DoFn, by tag; the key None also stands for the main output."""


@attrs.frozen
class DoFnRunnerArguments:
    """Arguments with which Beam created a ``DoFnRunner``, the object that runs a DoFn.

    Attributes:
        process: the method that processes elements, even if the DoFn's ``setup`` replaces it.
        names: the names of the parameters of ``process``, as Beam sees them.
        defaults: the defaults of the last parameters.
        args: the arguments of ``process`` after the element, or their placeholders.
        kwargs: the keyword arguments of ``process``, or their placeholders.
        receivers: the receivers of the DoFn's outputs, by tag; the key None also stands for the
            main output.
        user_state: the state and timers of the DoFn, or None.
    """

    fn: core.DoFn
    process: Callable[..., Any]
    names: list[str]
    defaults: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    side_inputs: list[Any]
    windowing: core.Windowing
    receivers: Receivers
    user_state: userstate.UserStateContext | None


@contextmanager
def record_created_runners(
    replace_receivers: Callable[[Receivers], None] | None = None,
) -> Iterator[list[DoFnRunnerArguments]]:
    """Records the arguments of each ``DoFnRunner`` that Beam creates while this context is active.

    Args:
        replace_receivers: function that replaces receivers of a DoFn before Beam uses them.
    """
    made: list[DoFnRunnerArguments] = []

    def create_and_record_runner(
        fn: core.DoFn,
        args: Any,
        kwargs: Any,
        side_inputs: Any,
        windowing: Any,
        *,
        tagged_receivers: Any,
        **others: Any,
    ) -> common.DoFnRunner:
        given = (args, kwargs, side_inputs, windowing)
        if replace_receivers is not None:
            replace_receivers(tagged_receivers)
        with cache_inspections():
            runner = usual(fn, *given, tagged_receivers=tagged_receivers, **others)
            names, defaults = core.get_function_arguments(fn, "process")
        state = others.get("user_state_context")
        process = (fn, fn.process, names, defaults)
        made.append(DoFnRunnerArguments(*process, *given, tagged_receivers, state))
        return runner

    with _one_at_a_time:
        usual = common.DoFnRunner
        common.DoFnRunner = create_and_record_runner
        try:
            yield made
        finally:
            common.DoFnRunner = usual
