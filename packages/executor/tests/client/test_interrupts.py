from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_spark_executor.client.interrupts import describe_interrupt
from beam_spark_executor.client.servers import ExternalServer, RunningServer


class OwnServer:
    endpoint = "localhost:1"

    def get_exit_reason(self) -> str:
        return ""


STOP = "beam-spark-jobserver cancel job-1 --job-endpoint h:1"


@pytest.mark.parametrize(
    ("server", "flags", "parts"),
    [
        (ExternalServer("h:1"), [], ("goes on", STOP)),
        (ExternalServer("h:1"), ["--environment_type=LOOPBACK"], ("can't go on", STOP)),
        (OwnServer(), [], ("ends with this program",)),
        (OwnServer(), ["--beam_spark_state_dir=/s"], ("/s", "continues the job")),
    ],
)
def test_interrupt_message_says_whether_job_continues(
    server: RunningServer, flags: list[str], parts: tuple[str, ...]
) -> None:
    text = describe_interrupt(server, PipelineOptions(flags), "job-1")
    assert "job-1" in text
    assert all(part in text for part in parts)
