"""What DoFns of batches have in common: they take lists of numbers, and give some."""

from __future__ import annotations

from typing import Any

import apache_beam as beam


class OfNumbers(beam.DoFn):
    """Tells Beam its types."""

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def infer_output_type(self, input_element_type: Any) -> Any:
        return int
