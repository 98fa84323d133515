"""Access to the DoFn of one of Beam's operations, and to the receivers of its results.

Beam stores the object that runs a DoFn, and the DoFn, inside compiled code, so this module records
them at their creation.
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

from beam_runner_worker.embedded.inspections import cache_inspections

_one_at_a_time = threading.RLock()


@attrs.frozen
class DoFnRunnerArguments:
    """The arguments of an object that runs a DoFn.

    Attributes:
        fn: the DoFn.
        process: the method that processes elements, even if the DoFn's ``setup`` replaces it.
        defaults: the defaults of the parameters of ``process``, as Beam sees them.
        args: the arguments of ``process`` after the element, or their placeholders.
        kwargs: the same, by name.
        side_inputs: its side inputs.
        windowing: the windowing of its results.
        receivers: the receivers of its outputs, by tag; the main output is also under None.
        user_state: its state and timers, if it has any.
    """

    fn: core.DoFn
    process: Callable[..., Any]
    defaults: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    side_inputs: list[Any]
    windowing: core.Windowing
    receivers: dict[str | None, operations.ConsumerSet]
    user_state: userstate.UserStateContext | None


@contextmanager
def record_created_runners() -> Iterator[list[DoFnRunnerArguments]]:
    """Within this context, the list collects the runners that operations create in this thread."""
    made: list[DoFnRunnerArguments] = []

    def create_recorded_runner(
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
        with cache_inspections():
            runner = usual(fn, *given, tagged_receivers=tagged_receivers, **others)
            _, defaults = core.get_function_arguments(fn, "process")
        state = others.get("user_state_context")
        made.append(DoFnRunnerArguments(fn, fn.process, defaults, *given, tagged_receivers, state))
        return runner

    with _one_at_a_time:
        usual = common.DoFnRunner
        common.DoFnRunner = create_recorded_runner
        try:
            yield made
        finally:
            common.DoFnRunner = usual
