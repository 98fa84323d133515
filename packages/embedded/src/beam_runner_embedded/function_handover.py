"""Hand-over of user functions to Beam's operations without pickling.

Beam adds the windowing to an unpickled DoFn, pickles the DoFn again, and each operation unpickles
that copy three times. This takes half of the set-up of a stage.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import attrs
from apache_beam.internal import pickler
from apache_beam.runners.worker import bundle_processor, operations

from beam_runner_embedded.replacing import replace_attribute

_one_at_a_time = threading.RLock()


@attrs.frozen(eq=False)
class _FunctionHolder:
    """Holder of a function and its arguments, which replaces their pickled form."""

    function: Any


class _FunctionHandover:
    """Replacement of Beam's module ``pickler`` in the modules that build operations."""

    @staticmethod
    def dumps(function: Any) -> _FunctionHolder:
        """Returns a holder of the function instead of its pickled form."""
        return _FunctionHolder(function)

    @staticmethod
    def loads(pickled: bytes | _FunctionHolder) -> Any:
        """Returns the function of a holder, or unpickles a function that the pipeline sent."""
        return pickled.function if isinstance(pickled, _FunctionHolder) else pickler.loads(pickled)


@contextlib.contextmanager
def hand_over_functions() -> Iterator[None]:
    """Makes Beam pass functions to operations directly while this context is active.

    The context must be active while Beam builds operations, and while it sets them up. An operation
    gets the same function each time, so the operation can be set up only once.
    """
    with (
        _one_at_a_time,
        replace_attribute(bundle_processor, "pickler", _FunctionHandover),
        replace_attribute(operations, "pickler", _FunctionHandover),
    ):
        yield
