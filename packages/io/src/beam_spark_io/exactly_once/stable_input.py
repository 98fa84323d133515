"""ParDo with stable input: the runner commits the input before user code reads it.

Beam's Python SDK can't express this requirement, so this ParDo sets the field in the portable
pipeline itself. Runners without stable input refuse the pipeline by Beam's own requirement.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.portability import common_urns


class StableInputParDo(beam.ParDo):
    """ParDo that requires stable input: each attempt at a bundle gets the same elements."""

    def to_runner_api_parameter(self, context: Any, **extra: Any) -> tuple[str, Any]:
        """Returns the transform's URN, and a payload that requests stable input."""
        urn, payload = super().to_runner_api_parameter(context, **extra)
        payload.requires_stable_input = True
        context.add_requirement(common_urns.requirements.REQUIRES_STABLE_INPUT.urn)
        return urn, payload
