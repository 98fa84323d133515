"""Detection of the SDK of a transform, because SDKs give different meanings to the same message."""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Callable

from apache_beam import version
from apache_beam.coders.coders import Coder
from apache_beam.runners.worker.bundle_processor import BeamTransformFactory
from apache_beam.transforms.environments import sdk_base_version_capability
from beam_runner_urns import protocols as protocol_urns

from beam_runner_planner import _protos

_PYTHON = f"{protocol_urns.SDK_BASE_VERSION_PREFIX}apache/beam_python"
_GO = f"{protocol_urns.SDK_BASE_VERSION_PREFIX}go:"
_GO_IMAGE = re.compile(r"apache/beam_go_sdk:(\d+)\.(\d+)")
_GO_HEEDS_PREFIXES = (2, 77)
_PYTHON_IMAGE = re.compile(r"apache/beam_python(\d+\.\d+)_sdk:(.+)")


def get_environment(
    part: _protos.PTransform | _protos.WindowingStrategy, components: _protos.Components
) -> _protos.Environment:
    """Returns the environment of a transform or coder; an empty environment if the transform or coder names none."""
    return components.environments.get(part.environment_id, _protos.Environment())


def is_python_sdk(environment: _protos.Environment) -> bool:
    """Returns whether an environment belongs to the Python SDK."""
    return any(capability.startswith(_PYTHON) for capability in environment.capabilities)


def is_go_sdk(environment: _protos.Environment) -> bool:
    """Returns whether an environment belongs to the Go SDK."""
    return any(capability.startswith(_GO) for capability in environment.capabilities)


def create_length_prefix_predicate(
    components: _protos.Components,
) -> Callable[[_protos.Coder], bool]:
    """Returns a predicate for coders: whether all SDKs of a pipeline write a length prefix around data
    of the coder.

    Up to 2.64, Go's SDK ignores a length-prefix coder around any coder that it knows and that has
    no payload. Go's SDK 2.77 writes the prefix. The runner treats the versions between as old.
    """
    always = all(map(_requires_length_prefixes_always, components.environments.values()))
    return lambda coder: always or bool(coder.spec.payload)


def _requires_length_prefixes_always(environment: _protos.Environment) -> bool:
    for capability in environment.capabilities:
        if capability.startswith(_GO):
            image = _GO_IMAGE.match(capability.removeprefix(_GO))
            return image is None or (int(image[1]), int(image[2])) >= _GO_HEEDS_PREFIXES
    return True


def has_server_versions(environment: _protos.Environment) -> bool:
    """Returns whether an environment has the server's versions of Python and Beam."""
    return sdk_base_version_capability() in environment.capabilities


def describe_versions(environment: _protos.Environment) -> str:
    """Returns the versions of an environment and of the server, as a clause."""
    return f"the pipeline uses {_describe_sdk(environment)}, and the server uses {get_server_versions()}"


def get_server_versions() -> str:
    """Returns the versions of Python and Beam that run pipelines in the server's own Python."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Beam {version.__version__} and Python {python}"


def _describe_sdk(environment: _protos.Environment) -> str:
    for capability in environment.capabilities:
        if capability.startswith(protocol_urns.SDK_BASE_VERSION_PREFIX):
            image = capability.removeprefix(protocol_urns.SDK_BASE_VERSION_PREFIX)
            python = _PYTHON_IMAGE.fullmatch(image)
            return f"Beam {python[2]} and Python {python[1]}" if python else f"the SDK {image!r}"
    return "an SDK of unknown version"


@functools.cache
def list_transforms_known_to_server() -> frozenset[str]:
    """Returns the URNs of the transforms that an SDK of the server's versions can run."""
    return frozenset(BeamTransformFactory._known_urns)


@functools.cache
def list_coders_known_to_server() -> frozenset[str]:
    """Returns the URNs of the coders that an SDK of the server's versions knows."""
    return frozenset(filter(None, Coder._known_urns))
