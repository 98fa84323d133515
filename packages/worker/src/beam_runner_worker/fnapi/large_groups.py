"""Groups too large to send: the SDK gets a token, and reads the values as state.

This is Beam's protocol of state-backed iterables. An iterable of unknown length (``-1``) may end
with another ``-1`` and a token. The rest of its values are the pages that ``StateKey.Runner``
returns for the token. An SDK supports it for the coder ``beam:coder:state_backed_iterable:v1``.
"""

from __future__ import annotations

from beam_runner_model.value_pieces import GroupValues, ValuePieces
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import environments as environment_urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2

LARGE_BYTES = 64 * 1024
"""The maximum size in bytes of values that are sent with their group; larger values are read as state."""
_BEGIN = b"\xff" * 4 + b"\xff" * 9 + b"\x01"
"""The length of an iterable of unknown length, then the length of the part to read as state."""


class LargeGroups:
    """The large groups of a bundle, which the SDK may read until the bundle ends.

    The thread that runs the bundle adds groups, and the state channel's thread reads pages.
    """

    def __init__(self) -> None:
        self._groups: dict[bytes, GroupValues] = {}
        self._given = 0

    def add_group(self, values: GroupValues) -> bytes:
        """Stores the values; returns the iterable that the SDK gets in place of them."""
        token = b"%d" % self._given
        self._given += 1
        self._groups[token] = values
        return b"".join((_BEGIN, len(token).to_bytes(1), token))

    def read_page(self, name: bytes, token: bytes) -> tuple[bytes, bytes]:
        """Returns a page of values, and the token of the next page (empty after the last).

        Args:
            name: the token of the group.
            token: the token of the page; empty for the first.

        Raises:
            LookupError: the bundle has no such group.
        """
        values = self._groups.get(name)
        if values is None:
            raise LookupError(f"the bundle has no group {name!r}")
        number = int(token) if token else 0
        if isinstance(values, (bytes, memoryview)):
            return bytes(values), b""
        following = number + 1
        return values.piece(number), b"%d" % following if following < values.pieces else b""

    def clear(self) -> None:
        """Removes all groups, because the SDK's bundle has ended. Names are never used again."""
        self._groups.clear()


def enable_state_reads(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, source: str, environment_id: str
) -> bool:
    """Lets the SDK read the values of the groups that come from ``source`` as state, if it supports
    that.

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
    """Returns the capabilities of an environment; of several alternatives, the common ones."""
    own = frozenset(environment.capabilities)
    if environment.urn != environment_urns.ANYOF:
        return own
    named = beam_runner_api_pb2.AnyOfEnvironmentPayload.FromString(environment.payload).environments
    common = [_get_capabilities(each) for each in named]
    return own | frozenset.intersection(*common) if common else own


def join_values(values: GroupValues) -> bytes | memoryview:
    """Returns all values joined, for an SDK that can't read them as state."""
    if isinstance(values, (bytes, memoryview)):
        return values
    return _join_pieces(values)


def _join_pieces(values: ValuePieces) -> bytes:
    return b"".join(values.piece(number) for number in range(values.pieces))
