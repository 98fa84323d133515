"""URNs of environments: how the SDK harness of a transform is started."""

from __future__ import annotations

# Environments of the model.
DOCKER = "beam:env:docker:v1"
PROCESS = "beam:env:process:v1"
EXTERNAL = "beam:env:external:v1"
DEFAULT = "beam:env:default:v1"
ANYOF = "beam:env:anyof:v1"

# Environments of the Python SDK, which run user code in the runner's own process or start a harness directly.
EMBEDDED_PYTHON = "beam:env:embedded_python:v1"
EMBEDDED_PYTHON_GRPC = "beam:env:embedded_python_grpc:v1"
EMBEDDED_PYTHON_LOOPBACK = "beam:env:embedded_python_loopback:v1"
SUBPROCESS_SDK = "beam:env:harness_subprocess_python:v1"
