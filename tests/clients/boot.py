"""PROCESS environment for an SDK of any version: the start of Beam's containers, without artifacts.

The program takes ``--id`` and ``--provision_endpoint``, requests all other settings, and becomes
the SDK harness: Python's harness, or a Go program with ``--program``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import grpc
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    parser.add_argument("--program")
    flags, _ = parser.parse_known_args()
    if os.environ.get("WORKER_ID") != flags.id:  # Beam looks there when it is imported
        os.environ["WORKER_ID"] = flags.id
        os.execv(sys.executable, [sys.executable, *sys.argv])
    with grpc.insecure_channel(flags.provision_endpoint) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        info = stub.GetProvisionInfo(
            request, metadata=(("worker_id", flags.id),), timeout=60, wait_for_ready=True
        ).info
    if flags.program:
        endpoints = [
            f"--{name}_endpoint={getattr(info, name + '_endpoint').url}"
            for name in ("logging", "control")
        ]
        os.execv(flags.program, [flags.program, "--worker=true", f"--id={flags.id}", *endpoints])
    for name in ("logging", "control"):
        url = getattr(info, f"{name}_endpoint").url
        os.environ[f"{name.upper()}_API_SERVICE_DESCRIPTOR"] = f"url: {json.dumps(url)}"
    os.environ["PIPELINE_OPTIONS"] = "{}"
    os.environ["RUNNER_CAPABILITIES"] = " ".join(info.runner_capabilities)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


if __name__ == "__main__":
    main()
