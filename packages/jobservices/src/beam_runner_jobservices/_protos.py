"""Beam's protocol buffers, which all other modules of the package import from here.

`wire` converts these messages to records and back. Importing this module loads the Beam SDK, which
takes 1 to 2 s.
"""

from __future__ import annotations

from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
    metrics_pb2,
    standard_window_fns_pb2,
)
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

artifact_roles = common_urns.artifact_roles
artifact_types = common_urns.artifact_types
composites = common_urns.composites
display_data = common_urns.displayData
environments = common_urns.environments
primitives = common_urns.primitives
windows_pb2 = standard_window_fns_pb2

JobServicer: Any = beam_job_api_pb2_grpc.JobServiceServicer
StagingServicer: Any = beam_artifact_api_pb2_grpc.ArtifactStagingServiceServicer
RetrievalServicer: Any = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceServicer
add_job_service: Any = beam_job_api_pb2_grpc.add_JobServiceServicer_to_server
add_staging_service: Any = beam_artifact_api_pb2_grpc.add_ArtifactStagingServiceServicer_to_server
add_retrieval_service: Any = (
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server
)
JobStub: Any = beam_job_api_pb2_grpc.JobServiceStub
StagingStub: Any = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub
RetrievalStub: Any = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub

__all__ = [
    "DecodeError",
    "JobServicer",
    "JobStub",
    "Message",
    "RetrievalServicer",
    "RetrievalStub",
    "StagingServicer",
    "StagingStub",
    "Struct",
    "Timestamp",
    "add_job_service",
    "add_retrieval_service",
    "add_staging_service",
    "artifact_roles",
    "artifact_types",
    "beam_artifact_api_pb2",
    "beam_job_api_pb2",
    "beam_runner_api_pb2",
    "composites",
    "display_data",
    "endpoints_pb2",
    "environments",
    "json_format",
    "metrics_pb2",
    "primitives",
    "windows_pb2",
]
