"""Message for a user who interrupts the program with Ctrl-C while a job runs."""

from __future__ import annotations

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_spark_executor.client.options import BeamSparkOptions
from beam_spark_executor.client.servers import ExternalServer, RunningServer


def describe_interrupt(server: RunningServer, options: PipelineOptions, job_id: str) -> str:
    """Returns a text: whether the job continues without this program, and which command stops the job."""
    state = options.view_as(BeamSparkOptions).beam_spark_state_dir
    if not isinstance(server, ExternalServer):
        if state:
            return (
                f"job {job_id} stops with this program; the next server with the state folder"
                f" {state} continues the job"
            )
        return f"job {job_id} ends with this program, which has started the server of the job"
    stop = f"beam-spark-jobserver cancel {job_id} --job-endpoint {server.endpoint}"
    if options.view_as(PortableOptions).environment_type == "LOOPBACK":
        return f"job {job_id} can't go on without this program, which runs its user code: {stop}"
    return f"job {job_id} goes on; to stop the job: {stop}"
