"""Beam's protocol buffers that this package uses. No other module of the package imports them."""

from __future__ import annotations

from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_interactive_api_pb2,
    beam_interactive_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
    schema_pb2,
    standard_window_fns_pb2,
)
from google.protobuf import message, wrappers_pb2

DecodeError = message.DecodeError
Pipeline = beam_runner_api_pb2.Pipeline
Components = beam_runner_api_pb2.Components
PTransform = beam_runner_api_pb2.PTransform
PCollection = beam_runner_api_pb2.PCollection
FunctionSpec = beam_runner_api_pb2.FunctionSpec
Coder = beam_runner_api_pb2.Coder
Environment = beam_runner_api_pb2.Environment
AnyOfEnvironmentPayload = beam_runner_api_pb2.AnyOfEnvironmentPayload
DockerPayload = beam_runner_api_pb2.DockerPayload
ArtifactInformation = beam_runner_api_pb2.ArtifactInformation
ArtifactFilePayload = beam_runner_api_pb2.ArtifactFilePayload
ArtifactStagingToRolePayload = beam_runner_api_pb2.ArtifactStagingToRolePayload
ParDoPayload = beam_runner_api_pb2.ParDoPayload
StateSpec = beam_runner_api_pb2.StateSpec
TimeDomain = beam_runner_api_pb2.TimeDomain
SideInput = beam_runner_api_pb2.SideInput
ReadPayload = beam_runner_api_pb2.ReadPayload
CombinePayload = beam_runner_api_pb2.CombinePayload
WindowIntoPayload = beam_runner_api_pb2.WindowIntoPayload
WindowingStrategy = beam_runner_api_pb2.WindowingStrategy
FixedWindowsPayload = standard_window_fns_pb2.FixedWindowsPayload
SlidingWindowsPayload = standard_window_fns_pb2.SlidingWindowsPayload
SessionWindowsPayload = standard_window_fns_pb2.SessionWindowsPayload
Trigger = beam_runner_api_pb2.Trigger
TimestampTransform = beam_runner_api_pb2.TimestampTransform
TestStreamPayload = beam_runner_api_pb2.TestStreamPayload
EventsRequest = beam_interactive_api_pb2.EventsRequest
TestStreamServiceStub = beam_interactive_api_pb2_grpc.TestStreamServiceStub
AccumulationMode = beam_runner_api_pb2.AccumulationMode
ClosingBehavior = beam_runner_api_pb2.ClosingBehavior
OnTimeBehavior = beam_runner_api_pb2.OnTimeBehavior
IsBounded = beam_runner_api_pb2.IsBounded
MergeStatus = beam_runner_api_pb2.MergeStatus
OutputTime = beam_runner_api_pb2.OutputTime

ProcessBundleDescriptor = beam_fn_api_pb2.ProcessBundleDescriptor
RemoteGrpcPort = beam_fn_api_pb2.RemoteGrpcPort

Schema = schema_pb2.Schema
Field = schema_pb2.Field
FieldType = schema_pb2.FieldType
AtomicType = schema_pb2.AtomicType

LabelledPayload = beam_runner_api_pb2.LabelledPayload

ApiServiceDescriptor = endpoints_pb2.ApiServiceDescriptor

BytesValue = wrappers_pb2.BytesValue
