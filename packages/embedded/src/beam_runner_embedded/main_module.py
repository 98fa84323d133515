"""Replacement for the module ``__main__`` in a worker, which contains the classes of the user's
script.

A function of the user's script is pickled by value, together with the script's classes that it
uses. But the pickle of an element contains only the name of its class, which unpickling looks up in
``__main__``. A client can send classes that no function uses in a separate file
(:mod:`~beam_runner_worker.main_classes`).
"""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from beam_runner_model.stages import HarnessStage
from beam_runner_urns.payloads import COMBINE_PARTS, PAR_DOS

from beam_runner_embedded._protos import beam_fn_api_pb2, beam_runner_api_pb2

_LOGGER = logging.getLogger(__name__)


class MainModule(types.ModuleType):
    """Module ``__main__`` that finds the classes of the user's script by name.

    A lookup first searches the classes that were unpickled in this process, and then the classes
    that the client sent. If both fail, the module unpickles the functions of the job's stages one
    by one, until a function contains the class.

    Args:
        functions: returns the pickled functions of all stages of the job; called at most once.
        sent: pickled classes that the client sent, by name.
    """

    def __init__(
        self, functions: Callable[[], Iterable[bytes]], sent: Mapping[str, bytes] | None = None
    ) -> None:
        super().__init__("__main__")
        self._lock = threading.RLock()
        self._sent = sent or {}
        self._left = _iterate_lazily(functions)

    def __getattr__(self, name: str) -> Any:
        """Returns the class with this name; raises AttributeError if no function of the job contains it."""
        if name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            found = _find_unpickled_class(name) or self._load_class_of_main_session(name)
            while found is None:
                pickled = next(self._left, None)
                if pickled is None:
                    raise AttributeError(
                        f"the class {name!r} isn't part of any function of the job"
                    )
                _load_function(pickled)
                found = _find_unpickled_class(name)
            setattr(self, name, found)
            return found

    def _load_class_of_main_session(self, name: str) -> type | None:
        pickled = self._sent.get(name)
        if pickled is None:
            return None
        try:
            return cast("type", cloudpickle.loads(pickled))
        except Exception as error:
            raise AttributeError(
                f"Can't load the class {name!r} of the pipeline's main module: {error}"
            ) from error


def extract_functions(stages: Iterable[HarnessStage]) -> Iterator[bytes]:
    """Returns the pickled DoFns and CombineFns of stages."""
    for stage in stages:
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.descriptor)
        for transform in descriptor.transforms.values():
            spec = transform.spec
            if spec.urn in PAR_DOS:
                yield beam_runner_api_pb2.ParDoPayload.FromString(spec.payload).do_fn.payload
            elif spec.urn in COMBINE_PARTS:
                payload = beam_runner_api_pb2.CombinePayload.FromString(spec.payload)
                yield payload.combine_fn.payload


def _iterate_lazily(functions: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    yield from functions()


def _find_unpickled_class(name: str) -> type | None:
    """Returns a class of the user's script that was unpickled in this process."""
    known = list(cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.values())
    matching = (each for each in known if each.__module__ == "__main__")
    return next((each for each in matching if each.__qualname__ == name), None)


def _load_function(pickled: bytes) -> None:
    try:
        pickler.loads(pickled)
    except Exception:
        # Ignore the error, because the stage that runs the function reports it.
        _LOGGER.debug("Can't load a function", exc_info=True)
