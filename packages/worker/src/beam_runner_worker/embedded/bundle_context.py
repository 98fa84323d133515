"""What Beam's operations are told of the bundle that they process; it is told at which element one of them failed."""

from __future__ import annotations

from typing import Any

from apache_beam.runners.worker.bundle_processor import ExecutionContext
from apache_beam.utils.windowed_value import WindowedValue


class BundleContext(ExecutionContext):
    """Beam's context of a bundle, which stands where exceptions are sampled.

    Beam's operations, whose frames in a traceback show no element, tell it there. That costs nothing
    before there is an exception.

    Args:
        bundle_id: the bundle.
    """

    def __init__(self, bundle_id: str) -> None:
        super().__init__(instruction_id=bundle_id)
        # Not the exception itself: its traceback leads back here.
        self._sampled_id: int | None = None
        self._sampled: WindowedValue | None = None

    def __getattribute__(self, name: str) -> Any:
        # Beam sets that for each element, and asks for it only where there is an exception.
        return self if name == "output_sampler" else super().__getattribute__(name)

    def sample_exception(
        self,
        element: WindowedValue | None,
        exc_info: tuple[Any, BaseException, Any],
        transform_id: str,
        instruction_id: str,
    ) -> None:
        """Called by Beam's operations, as they call a data sampler, from their handlers."""
        self._sampled_id, self._sampled = id(exc_info[1]), element

    def element_at(self, error: BaseException) -> WindowedValue | None:
        """What was processed when that was raised; None if it was no element, or nobody told."""
        return self._sampled if id(error) == self._sampled_id else None
