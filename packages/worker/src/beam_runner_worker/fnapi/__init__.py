"""Runs stages in SDK harnesses of any language over Beam's Fn API."""

from __future__ import annotations

from beam_runner_worker.fnapi.external import stop_external_worker
from beam_runner_worker.fnapi.harness import FnApiHarness, Limits
from beam_runner_worker.fnapi.server import FnApiServer
from beam_runner_worker.fnapi.status import SdkStatus

__all__ = ["FnApiHarness", "FnApiServer", "Limits", "SdkStatus", "stop_external_worker"]
