"""The classes of the user's own script, sent along with a job so that elements may be of them.

A pipeline's functions bring along the classes of ``__main__`` that they mention. But ``Create`` may be
given elements whose class nothing mentions, and those name the class only: the worker looks it up in
the file that is made here.
"""

from __future__ import annotations

import io
import logging
import sys

from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from beam_runner_worker.main_classes import encode

_MOST_BYTES = 1 << 20
_LOGGER = logging.getLogger(__name__)


class _TooLarge(Exception):
    pass


class _Limited(io.BytesIO):
    """Takes so much and no more: a method may mention a global variable of any size."""

    def write(self, data: object) -> int:
        if self.tell() + memoryview(data).nbytes > _MOST_BYTES:  # type: ignore[arg-type]
            raise _TooLarge(f"it is larger than {_MOST_BYTES} bytes")
        return super().write(data)  # type: ignore[arg-type]


def pickled_main_classes() -> bytes:
    """A file of `beam_runner_worker.main_classes` with each class that ``__main__`` defines.

    Classes that can't be pickled, or are large with all that they mention, are left out. Empty where
    there are none.
    """
    if not pickler.is_currently_cloudpickle():
        return b""
    found = {}
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if (
            isinstance(value, type)
            and value.__module__ == "__main__"
            and value.__qualname__ == name
        ):
            try:
                found[name] = _pickled(value)
            except Exception as error:
                # Nobody may need it; who does is told by the error of the worker that misses it.
                _LOGGER.debug("the class %s is not sent along: %s", name, error)
    return encode(found) if found else b""


def _pickled(value: type) -> bytes:
    file = _Limited()
    cloudpickle.CloudPickler(file).dump(value)
    return file.getvalue()
