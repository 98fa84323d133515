"""Context of a bundle for Beam's operations, which stores the element at which an operation failed."""

from __future__ import annotations

from typing import Any

from apache_beam.runners.worker.bundle_processor import ExecutionContext
from apache_beam.utils.windowed_value import WindowedValue


class BundleContext(ExecutionContext):
    """Beam's execution context of a bundle, which also acts as a sampler of exceptions.

    Tracebacks of Beam's compiled operations contain no elements. But if an operation fails, it
    passes its element to this object. Successful processing has no extra cost.

    Args:
        bundle_id: id of the bundle, used as Beam's instruction id.
    """

    def __init__(self, bundle_id: str) -> None:
        super().__init__(instruction_id=bundle_id)
        # Don't store the exception itself, because its traceback refers to this object.
        self._sampled_id: int | None = None
        self._sampled: WindowedValue | None = None

    def __getattribute__(self, name: str) -> Any:
        # Beam sets this attribute for each element, and reads it only after an exception.
        return self if name == "output_sampler" else super().__getattribute__(name)

    def sample_exception(
        self,
        element: WindowedValue | None,
        exc_info: tuple[Any, BaseException, Any],
        transform_id: str,
        instruction_id: str,
    ) -> None:
        """Stores the element that an operation was processing when it raised an exception. Beam's
        operations call this method, because they treat this object as a data sampler.
        """
        self._sampled_id, self._sampled = id(exc_info[1]), element

    def find_failed_element(self, error: BaseException) -> WindowedValue | None:
        """Returns the element that an operation was processing when it raised this exception; None if unknown."""
        return self._sampled if id(error) == self._sampled_id else None
