"""Cache for Beam's inspection of the signatures of a DoFn's methods.

When Beam builds the object that runs a DoFn, it inspects every method at least twice. That takes
0.9 ms for each DoFn, mostly for methods that the DoFn inherits from Beam's classes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

from apache_beam.transforms import core, userstate

from beam_runner_embedded.replacing import replace_attribute

_Parameters = tuple[list[str], list[Any]]

_one_at_a_time = threading.RLock()
_beams_own = {
    id(function): function
    for owner in core.CallableWrapperDoFn.__mro__
    for function in vars(owner).values()
    if isinstance(function, FunctionType)
}
_of_beams_own: dict[int, _Parameters] = {}


@contextmanager
def cache_inspections() -> Iterator[None]:
    """Caches Beam's inspection results for each method of an object while this context is active.

    Results for methods of Beam's own classes are cached until the process exits.
    """
    with _one_at_a_time:
        arguments, specs = core.get_function_arguments, userstate.get_dofn_specs
        # Store the objects, too, so that no other object can get the same id.
        asked: dict[tuple[int, str], tuple[Any, _Parameters]] = {}
        all_specs: dict[int, tuple[Any, Any]] = {}

        def get_cached_arguments(obj: Any, method_name: str) -> _Parameters:
            own = _find_beam_function(obj, method_name)
            if own is not None:
                if own not in _of_beams_own:
                    _of_beams_own[own] = arguments(obj, method_name)
                return _of_beams_own[own]
            place = (id(obj), method_name)
            if place not in asked:
                asked[place] = (obj, arguments(obj, method_name))
            return asked[place][1]

        def get_cached_specs(fn: core.DoFn) -> Any:
            if id(fn) not in all_specs:
                all_specs[id(fn)] = (fn, specs(fn))
            return all_specs[id(fn)][1]

        with (
            replace_attribute(core, "get_function_arguments", get_cached_arguments),
            replace_attribute(userstate, "get_dofn_specs", get_cached_specs),
        ):
            yield


def _find_beam_function(obj: Any, method_name: str) -> int | None:
    """Returns the id of the function behind a method if a Beam class defines it; None for other
    methods, or if the object overrides the inspection.
    """
    method = getattr(obj, method_name, None)
    if not isinstance(method, MethodType) or hasattr(obj, f"_inspect_{method_name}"):
        return None
    function = id(method.__func__)
    return function if function in _beams_own else None
