"""The bundle's context for Beam's operations, which receives the element at which an operation failed."""

from __future__ import annotations

from typing import Any

from apache_beam.runners.worker.bundle_processor import ExecutionContext
from apache_beam.utils.windowed_value import WindowedValue


class BundleContext(ExecutionContext):
    """Beam's context of a bundle, in the place of a sampler of exceptions.

    The frames of Beam's operations show no element in a traceback, but the operations pass the
    element to this object. That costs nothing without an exception.

    Args:
        bundle_id: the bundle.
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
        """Called by the exception handlers of Beam's operations, which treat this object as a data sampler."""
        self._sampled_id, self._sampled = id(exc_info[1]), element

    def find_failed_element(self, error: BaseException) -> WindowedValue | None:
        """Returns the element that was processed when an exception was raised; None if no operation reported one."""
        return self._sampled if id(error) == self._sampled_id else None
