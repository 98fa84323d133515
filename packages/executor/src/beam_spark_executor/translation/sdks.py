"""Which SDK a part of a pipeline is of, for where SDKs mean different things by the same words."""

from __future__ import annotations

from beam_runner_urns import protocols as protocol_urns

from beam_spark_executor import _protos

_PYTHON = f"{protocol_urns.SDK_BASE_VERSION_PREFIX}apache/beam_python"
_GO = f"{protocol_urns.SDK_BASE_VERSION_PREFIX}go:"


def environment_of(
    part: _protos.PTransform | _protos.WindowingStrategy, components: _protos.Components
) -> _protos.Environment:
    """The environment that a part names; an empty one if it names none."""
    return components.environments.get(part.environment_id, _protos.Environment())


def is_of_python(environment: _protos.Environment) -> bool:
    """Whether it is one of the Python SDK."""
    return any(capability.startswith(_PYTHON) for capability in environment.capabilities)


def is_of_go(environment: _protos.Environment) -> bool:
    """Whether it is one of the Go SDK."""
    return any(capability.startswith(_GO) for capability in environment.capabilities)
