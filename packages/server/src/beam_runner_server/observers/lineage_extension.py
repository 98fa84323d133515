"""The extension that emits OpenLineage events about the inputs and outputs of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_runner_server.observers.extension import ObserverExtension

if TYPE_CHECKING:
    from beam_runner_jobservices.local_access import LocalAccess

    from beam_runner_server.observers.watch import JobExporter

VARIABLE = "BEAM_RUNNER_LINEAGE"
"""Environment variable of the server; ``1`` has the effect of ``--lineage``."""


class LineageExtension(ObserverExtension):
    """Extension that the flag ``--lineage`` enables. OpenLineage's configuration selects the
    destination of the events.
    """

    flag = "--lineage"
    variable = VARIABLE
    description = (
        "emit OpenLineage events about jobs; needs the extra openlineage (default: only if"
        " the environment variable BEAM_RUNNER_LINEAGE is 1)"
    )
    modules = ("openlineage.client",)
    extra = "openlineage"

    def create_exporter(self, door: LocalAccess) -> tuple[JobExporter, str]:
        # Import the client here, because the library is optional.
        from openlineage.client import OpenLineageClient

        from beam_runner_server.observers.lineage import LineageExporter

        try:
            client = OpenLineageClient()
        except Exception as error:
            raise RuntimeError(f"Can't configure OpenLineage: {error}") from error
        return LineageExporter(client), "its lineage is emitted"
