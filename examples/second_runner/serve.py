"""Job server whose jobs run on Dask: ``python examples/second_runner/serve.py --job-port 8099``."""

from __future__ import annotations

import argparse
import sys

import attrs
from beam_runner_server.cli import main
from beam_runner_server.plain import DeferredPlatform, PlainProgram


@attrs.frozen
class DaskProgram(PlainProgram):
    """The command, with the flags of a server on plain processes."""

    name: str = "beam-dask-jobserver"
    description: str = "Serves the Beam Job API and runs the jobs on Dask."

    def create_platform(self, found: argparse.Namespace) -> DeferredPlatform:
        """Returns Dask with the number of cores of ``--cores``."""
        from dask_placement import DaskPlacement

        return DeferredPlatform(lambda: DaskPlacement(found.cores))


if __name__ == "__main__":
    sys.exit(main(program=DaskProgram()))
