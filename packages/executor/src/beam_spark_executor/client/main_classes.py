"""Classes of the user's script, which the client sends with a job so that elements can be instances
of these classes.

The pickled functions of a pipeline include the classes of ``__main__`` that they use. But
``Create`` can get elements of a class that no function uses. Their pickle contains only the class
name, which the worker looks up in the file that this module makes.
"""

from __future__ import annotations

import io
import logging
import sys

from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from beam_runner_worker.main_classes import encode_classes

_MOST_BYTES = 1 << 20
_LOGGER = logging.getLogger(__name__)


class _ClassTooLarge(Exception):
    pass


class _SizeLimitedBuffer(io.BytesIO):
    """A buffer with a size limit, because a method can refer to a global variable of any size."""

    def write(self, data: object) -> int:
        if self.tell() + memoryview(data).nbytes > _MOST_BYTES:  # type: ignore[arg-type]
            raise _ClassTooLarge(f"the pickled class is larger than {_MOST_BYTES} bytes")
        return super().write(data)  # type: ignore[arg-type]


def pickle_main_classes() -> bytes:
    """Returns the bytes of a file with all classes that ``__main__`` defines, in the format that
    `beam_runner_worker.main_classes` reads.

    The file doesn't contain classes that can't be pickled, or whose pickle is too large. The result
    is empty if no class remains.
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
                found[name] = _pickle_class(value)
            except Exception as error:
                # Ignore the pickling error, because the class may be unused. If a worker needs the
                # class, the worker reports it as missing.
                _LOGGER.debug("Can't send the class %s with the job: %s", name, error)
    return encode_classes(found) if found else b""


def _pickle_class(value: type) -> bytes:
    file = _SizeLimitedBuffer()
    cloudpickle.CloudPickler(file).dump(value)
    return file.getvalue()
