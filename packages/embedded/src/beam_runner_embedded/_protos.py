"""Imports of Beam's generated protocol buffer modules, for all other modules of this package."""

from __future__ import annotations

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

__all__ = ["beam_fn_api_pb2", "beam_runner_api_pb2"]
