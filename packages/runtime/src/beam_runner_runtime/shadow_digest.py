"""Payload of the DoFn that replaces steps in a shadow run."""

from __future__ import annotations

from apache_beam.internal import pickler
from beam_runner_embedded.input_digest import DigestInput


def make_shadow_digest_payload(start: int) -> bytes:
    """Returns the pickled DoFn and its arguments, in the format that Beam's Python SDK reads.

    Args:
        start: start of the shadow run (ms since 1970).
    """
    return bytes(pickler.dumps((DigestInput(start), (), {}, [], None)))
