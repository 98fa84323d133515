"""URNs of environments: each environment starts the SDK harness of a transform in a different way."""

from __future__ import annotations

# Environments of Beam's model.
DOCKER = "beam:env:docker:v1"
PROCESS = "beam:env:process:v1"
EXTERNAL = "beam:env:external:v1"
DEFAULT = "beam:env:default:v1"
ANYOF = "beam:env:anyof:v1"

# Environments of the Python SDK. They run user code in the runner's process or start a harness
# directly.
EMBEDDED_PYTHON = "beam:env:embedded_python:v1"
EMBEDDED_PYTHON_GRPC = "beam:env:embedded_python_grpc:v1"
EMBEDDED_PYTHON_LOOPBACK = "beam:env:embedded_python_loopback:v1"
SUBPROCESS_SDK = "beam:env:harness_subprocess_python:v1"
