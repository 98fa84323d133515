"""Environment of the steps of a shadow run that the runner executes in place of the user's steps.

The environment runs in the runner's own Python, and knows no coder of the user.
"""

from __future__ import annotations

from apache_beam.transforms.environments import (
    python_sdk_capabilities,
    sdk_base_version_capability,
)
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import environments as environment_urns

from beam_runner_planner import _protos

DIGEST_ENVIRONMENT = "beam_runner_shadow_digest"
"""ID of the environment of replaced steps."""

_BYTES_ID = "beam_runner_shadow_bytes"
_READABLE_CODERS = frozenset(
    {
        coder_urns.BYTES,
        coder_urns.STRING_UTF8,
        coder_urns.KV,
        coder_urns.BOOL,
        coder_urns.VARINT,
        coder_urns.DOUBLE,
        coder_urns.ITERABLE,
        coder_urns.TIMER,
        coder_urns.INTERVAL_WINDOW,
        coder_urns.GLOBAL_WINDOW,
        coder_urns.WINDOWED_VALUE,
        coder_urns.PARAM_WINDOWED_VALUE,
        coder_urns.STATE_BACKED_ITERABLE,
        coder_urns.SHARDED_KEY,
        coder_urns.NULLABLE,
    }
)


def add_digest_environment(components: _protos.Components) -> None:
    """Adds the environment of replaced steps.

    The capabilities of all environments decide which coders have a length prefix, so the environment has
    the capabilities of all others.
    """
    known = {one for other in components.environments.values() for one in other.capabilities}
    environment = components.environments[DIGEST_ENVIRONMENT]
    environment.urn = environment_urns.EMBEDDED_PYTHON
    environment.capabilities.extend(
        sorted({*known, *python_sdk_capabilities(), sdk_base_version_capability()})
    )


def replace_unknown_coders(descriptor: _protos.ProcessBundleDescriptor) -> None:
    """Replaces the coders that only the user's SDK knows in the descriptor of a replaced step.

    In every stream, data with these coders has a length prefix, so that a coder of bytes can read
    the data.
    """
    descriptor.coders[_BYTES_ID].spec.urn = coder_urns.BYTES
    for coder in descriptor.coders.values():
        if coder.spec.urn == coder_urns.LENGTH_PREFIX:
            coder.component_coder_ids[:] = [_BYTES_ID]
        elif coder.spec.urn not in _READABLE_CODERS:
            coder.Clear()
            coder.spec.urn = coder_urns.BYTES
