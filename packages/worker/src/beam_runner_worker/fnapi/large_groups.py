"""Large groups, whose values an SDK reads as state by a token.

This module implements Beam's state-backed iterables. An iterable of unknown length (``-1``) may end
with another ``-1`` and a token. The SDK reads the remaining values in pages, with the token as
``StateKey.Runner``. An SDK supports this protocol for the coder
``beam:coder:state_backed_iterable:v1``.
"""

from __future__ import annotations

from beam_runner_model.value_pieces import GroupValues
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import environments as environment_urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2

LARGE_BYTES = 64 * 1024
"""Maximum size in bytes of values that are sent with their group. The SDK reads larger values as state."""
_BEGIN = b"\xff" * 4 + b"\xff" * 9 + b"\x01"
"""Prefix of a state-backed iterable: the length -1 in 4 bytes, and -1 as a variable-length integer."""


class LargeGroups:
    """Store of the large groups of a bundle, which the SDK may read until the bundle ends.

    The bundle's thread adds groups, and the thread of the state channel reads pages.
    """

    def __init__(self) -> None:
        self._groups: dict[bytes, GroupValues] = {}
        self._given = 0

    def add_group(self, values: GroupValues) -> bytes:
        """Stores the values of a group, and returns the encoded iterable with a token that the SDK
        gets instead of the values.
        """
        token = b"%d" % self._given
        self._given += 1
        self._groups[token] = values
        return b"".join((_BEGIN, len(token).to_bytes(1), token))

    def read_page(self, name: bytes, token: bytes) -> tuple[bytes, bytes]:
        """Returns a page of a group's values, and the token of the next page (empty after the last
        page).

        Args:
            name: the token of the group.
            token: the token of the page; empty for the first.

        Raises:
            LookupError: The bundle has no group with this token.
        """
        values = self._groups.get(name)
        if values is None:
            raise LookupError(f"the bundle has no group {name!r}")
        number = int(token) if token else 0
        if isinstance(values, (bytes, memoryview)):
            return bytes(values), b""
        following = number + 1
        return values.piece(number), b"%d" % following if following < values.pieces else b""

    def clear_groups(self) -> None:
        """Removes all groups after the end of the SDK's bundle. Later groups never reuse their tokens."""
        self._groups.clear()


def enable_state_reads(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, source: str, environment_id: str
) -> bool:
    """Changes the coder of a data source so that the SDK reads the values of large groups as state.
    Returns False if the SDK doesn't support that.

    Args:
        descriptor: the stage's descriptor; the coder of the source becomes a coder of state-backed
            iterables.
        source: the data source, whose elements are keys with iterables.
        environment_id: the SDK's environment.
    """
    if coder_urns.STATE_BACKED_ITERABLE not in _get_capabilities(
        descriptor.environments[environment_id]
    ):
        return False
    spec = descriptor.transforms[source].spec
    port = beam_fn_api_pb2.RemoteGrpcPort.FromString(spec.payload)
    windowed = descriptor.coders[port.coder_id]
    pair = descriptor.coders[windowed.component_coder_ids[0]]
    if pair.spec.urn != coder_urns.KV:
        return False
    key_id, values_id = pair.component_coder_ids
    values = descriptor.coders[values_id]
    if values.spec.urn != coder_urns.ITERABLE:
        return False
    names = [f"{port.coder_id}/large_{part}" for part in ("values", "group", "windowed")]
    _add_coder(
        descriptor, names[0], values, coder_urns.STATE_BACKED_ITERABLE, values.component_coder_ids
    )
    _add_coder(descriptor, names[1], pair, pair.spec.urn, (key_id, names[0]))
    rest = windowed.component_coder_ids[1:]
    _add_coder(descriptor, names[2], windowed, windowed.spec.urn, (names[1], *rest))
    port.coder_id = names[2]
    spec.payload = port.SerializeToString()
    return True


def _add_coder(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
    coder_id: str,
    like: beam_runner_api_pb2.Coder,
    urn: str,
    components: tuple[str, ...],
) -> None:
    coder = descriptor.coders[coder_id]
    coder.CopyFrom(like)
    coder.spec.urn = urn
    coder.component_coder_ids[:] = components


def _get_capabilities(environment: beam_runner_api_pb2.Environment) -> frozenset[str]:
    """Returns the capabilities of an environment. If the environment has alternatives, a capability
    must be common to all of them.
    """
    own = frozenset(environment.capabilities)
    if environment.urn != environment_urns.ANYOF:
        return own
    named = beam_runner_api_pb2.AnyOfEnvironmentPayload.FromString(environment.payload).environments
    common = [_get_capabilities(each) for each in named]
    return own | frozenset.intersection(*common) if common else own


def join_values(values: GroupValues) -> bytes | memoryview:
    """Returns all values of a group as one block of bytes, for an SDK that can't read values as state."""
    if isinstance(values, (bytes, memoryview)):
        return values
    return b"".join(values.piece(number) for number in range(values.pieces))
