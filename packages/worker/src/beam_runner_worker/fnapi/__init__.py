"""Execution of stages in SDK harnesses of any language over Beam's Fn API."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_runner_worker.fnapi.external import stop_external_worker
    from beam_runner_worker.fnapi.harness import FnApiHarness, Limits
    from beam_runner_worker.fnapi.server import FnApiServer
    from beam_runner_worker.fnapi.status import SdkStatus

__all__ = ["FnApiHarness", "FnApiServer", "Limits", "SdkStatus", "stop_external_worker"]

# Looked up when they are asked for: `boot`, which is a module of this package, has to begin before Beam is imported.
_HOMES = {
    "FnApiHarness": "harness",
    "FnApiServer": "server",
    "Limits": "harness",
    "SdkStatus": "status",
    "stop_external_worker": "external",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
