"""Shared parts of batched DoFns, which take lists of numbers and return lists of numbers."""

from __future__ import annotations

from typing import Any

import apache_beam as beam


class NumberBatchDoFn(beam.DoFn):
    """A base class that declares the types for Beam."""

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def infer_output_type(self, input_element_type: Any) -> Any:
        return int
