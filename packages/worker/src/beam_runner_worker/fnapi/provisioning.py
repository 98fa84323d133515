"""gRPC services that an SDK harness calls while it starts: provision info and artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import grpc
from beam_runner_model.stages import Artifact, Environment, JobContext
from beam_runner_urns import protocols

from beam_runner_worker._protos import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
    json_format,
)
from beam_runner_worker.fnapi.services import SdkRegistry, abort_call
from beam_runner_worker.ports import ArtifactReader

RUNNER_CAPABILITIES = (
    protocols.MONITORING_INFO_SHORT_IDS,
    protocols.MULTIMAP_KEYS_VALUES_SIDE_INPUT,
)
"""Protocols that the runner supports. Data inside control messages isn't supported."""


class ProvisionService(beam_provision_api_pb2_grpc.ProvisionServiceServicer):
    """Service that returns the job's options, its artifacts and the endpoints to an SDK harness."""

    def __init__(self, job: JobContext, workers: SdkRegistry) -> None:
        self._job = job
        self._workers = workers
        self.endpoint = ""
        """Address of all services; set after the server has opened its port."""

    def GetProvisionInfo(
        self,
        request: beam_provision_api_pb2.GetProvisionInfoRequest,
        context: grpc.ServicerContext,
    ) -> beam_provision_api_pb2.GetProvisionInfoResponse:
        """Returns the job's options, the artifacts and the endpoints for the calling SDK."""
        connection = self._workers.find_calling_sdk(context)
        environment = self._job.environments[connection.environment]
        endpoint = endpoints_pb2.ApiServiceDescriptor(url=self.endpoint)
        info = beam_provision_api_pb2.ProvisionInfo(
            retrieval_token=connection.worker_id,
            logging_endpoint=endpoint,
            artifact_endpoint=endpoint,
            control_endpoint=endpoint,
            status_endpoint=endpoint,
            dependencies=map(_create_artifact_proto, environment.artifacts),
            runner_capabilities=RUNNER_CAPABILITIES,
            metadata={"job_id": self._job.job_id, "job_name": self._job.job_name},
        )
        json_format.Parse(self._job.options_json or "{}", info.pipeline_options)
        return beam_provision_api_pb2.GetProvisionInfoResponse(info=info)


class ArtifactService(beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceServicer):
    """Service that sends SDK harnesses the files that their environments need."""

    def __init__(
        self, environments: Mapping[str, Environment], reader: ArtifactReader, workers: SdkRegistry
    ) -> None:
        self._reader = reader
        self._workers = workers
        self._by_type = {
            (artifact.type_urn, artifact.type_payload): artifact.sha256
            for environment in environments.values()
            for artifact in environment.artifacts
        }

    def ResolveArtifacts(
        self,
        request: beam_artifact_api_pb2.ResolveArtifactsRequest,
        context: grpc.ServicerContext,
    ) -> beam_artifact_api_pb2.ResolveArtifactsResponse:
        """Returns every artifact unchanged, because artifacts were resolved when the job was staged."""
        return beam_artifact_api_pb2.ResolveArtifactsResponse(replacements=request.artifacts)

    def GetArtifact(
        self, request: beam_artifact_api_pb2.GetArtifactRequest, context: grpc.ServicerContext
    ) -> Iterator[beam_artifact_api_pb2.GetArtifactResponse]:
        """Yields the content of an artifact in chunks."""
        caller = self._workers.find_calling_sdk(context)
        wanted = request.artifact
        sha256 = self._by_type.get((wanted.type_urn, wanted.type_payload))
        if sha256 is None:
            abort_call(context, grpc.StatusCode.NOT_FOUND, "the job has no such artifact")
        try:
            for piece in self._reader.read_artifact(sha256):
                yield beam_artifact_api_pb2.GetArtifactResponse(data=piece)
        except KeyError:
            abort_call(context, grpc.StatusCode.NOT_FOUND, f"the artifact {sha256} is missing")
        except Exception as error:
            caller.artifact_error = error
            abort_call(context, grpc.StatusCode.UNAVAILABLE, str(error))


def _create_artifact_proto(artifact: Artifact) -> beam_runner_api_pb2.ArtifactInformation:
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=artifact.type_urn,
        type_payload=artifact.type_payload,
        role_urn=artifact.role_urn,
        role_payload=artifact.role_payload,
    )
