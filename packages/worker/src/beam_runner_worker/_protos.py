"""Imports of Beam's generated protocol buffer modules, for all other modules of this package.

The import loads the Beam SDK, which takes seconds. So code that needs only record classes, such as
``LogRecord``, must not import this module.
"""

from __future__ import annotations

from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
    metrics_pb2,
)
from google.protobuf import json_format, struct_pb2, text_format

__all__ = [
    "beam_artifact_api_pb2",
    "beam_artifact_api_pb2_grpc",
    "beam_fn_api_pb2",
    "beam_fn_api_pb2_grpc",
    "beam_provision_api_pb2",
    "beam_provision_api_pb2_grpc",
    "beam_runner_api_pb2",
    "endpoints_pb2",
    "json_format",
    "metrics_pb2",
    "struct_pb2",
    "text_format",
]
