"""Submission of a pipeline to the job server by `BeamSparkRunner`, with a job name and all options
for the server.
"""

from __future__ import annotations

import os
from typing import Any

import grpc
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from beam_runner_runtime.client_folder import ClientFolder
from beam_runner_runtime.job_options import VARIABLES
from beam_runner_runtime.option_values import make_option_key
from beam_runner_urns import options as option_urns

from beam_spark_executor._protos import PrepareJobRequest, RunJobRequest
from beam_spark_executor.client.job_names import make_default_job_name
from beam_spark_executor.client.options import (
    MADE_THE_SERVER,
    OF_THE_CLIENT,
    BeamSparkOptions,
)


class Submission(JobServiceHandle):
    """Replacement for Beam's ``JobServiceHandle``: submits one pipeline to the server.

    Args:
        own_server: whether this program has started the server with the same options.
    """

    def __init__(self, job_service: Any, options: PipelineOptions, own_server: bool) -> None:
        super().__init__(job_service, options, retain_unknown_options=True)
        self._own_server = own_server

    def submit(self, proto_pipeline: Any) -> Any:
        """Submits the pipeline; returns Beam's ids and streams.

        Raises:
            RuntimeError: the server refuses the pipeline; the text says why.
        """
        try:
            return super().submit(proto_pipeline)
        except grpc.RpcError as error:
            raise RuntimeError(error.details()) from None

    def run(self, preparation_id: str) -> Any:
        """Runs the prepared job, and returns its id. Returns empty streams of states and messages,
        because the result opens its own streams.
        """
        request = RunJobRequest(preparation_id=preparation_id)
        return self.job_service.Run(request).job_id, (), ()

    def prepare(self, proto_pipeline: Any) -> Any:
        """Prepares the job with the name that the user chose, or with the program's default name."""
        name = self.options.view_as(GoogleCloudOptions).job_name or make_default_job_name()
        request = PrepareJobRequest(
            job_name=name, pipeline=proto_pipeline, pipeline_options=self.get_pipeline_options()
        )
        return self.job_service.Prepare(request, timeout=self.timeout)

    def get_pipeline_options(self) -> Any:
        """Returns the pipeline options for the job: without options of the client and the server, and
        with the working directory and the requested environment variables of this program.

        Raises:
            ValueError: The program doesn't have a requested environment variable.
        """
        options = super().get_pipeline_options()
        if texts := self.options.view_as(BeamSparkOptions).beam_spark_env:
            variables = options.fields[option_urns.VARIABLES].list_value
            variables.Clear()
            variables.extend(VARIABLES.complete_texts(texts, os.environ))
        if folder := ClientFolder.from_current_process():
            options.fields[option_urns.CLIENT_FOLDER].string_value = folder.encode()
        for name in (*OF_THE_CLIENT, *(MADE_THE_SERVER if self._own_server else ())):
            options.fields.pop(make_option_key(name), None)
        return options
