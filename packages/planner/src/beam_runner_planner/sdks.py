"""Which SDK a part of a pipeline is of, for where SDKs mean different things by the same words."""

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


def heeds_prefix(components: _protos.Components) -> Callable[[_protos.Coder], bool]:
    """Says of a coder whether all SDKs of a pipeline write and read a length prefix around it.

    Go's of 2.64 and before leave it out, without a word, around coders that they know, which have
    no payload. That of 2.77 does not; those in between are taken for old.
    """
    always = all(map(_always_heeds_prefixes, components.environments.values()))
    return lambda coder: always or bool(coder.spec.payload)


def _always_heeds_prefixes(environment: _protos.Environment) -> bool:
    for capability in environment.capabilities:
        if capability.startswith(_GO):
            image = _GO_IMAGE.match(capability.removeprefix(_GO))
            return image is None or (int(image[1]), int(image[2])) >= _GO_HEEDS_PREFIXES
    return True


def is_our_own(environment: _protos.Environment) -> bool:
    """Whether it is one of Python and Beam in the server's own versions."""
    return sdk_base_version_capability() in environment.capabilities


def versions(environment: _protos.Environment) -> str:
    """Its versions and the server's, as a clause."""
    return f"this pipeline is of {_of(environment)}, the server's own are {own_versions()}"


def own_versions() -> str:
    """The versions in which the server's own Python runs pipelines."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Beam {version.__version__} and Python {python}"


def _of(environment: _protos.Environment) -> str:
    for capability in environment.capabilities:
        if capability.startswith(protocol_urns.SDK_BASE_VERSION_PREFIX):
            image = capability.removeprefix(protocol_urns.SDK_BASE_VERSION_PREFIX)
            python = _PYTHON_IMAGE.fullmatch(image)
            return f"Beam {python[2]} and Python {python[1]}" if python else f"the SDK {image!r}"
    return "an SDK that does not tell its version"


@functools.cache
def our_transforms() -> frozenset[str]:
    """The transforms that an SDK of the server's own versions can run."""
    return frozenset(BeamTransformFactory._known_urns)


@functools.cache
def our_coders() -> frozenset[str]:
    """The coders that an SDK of the server's own versions knows."""
    return frozenset(filter(None, Coder._known_urns))
