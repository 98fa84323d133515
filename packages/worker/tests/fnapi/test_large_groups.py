"""Tests of groups with many values: an SDK reads them repeatedly as state, and holds few values at once."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_model.chunks import FlushBarrier, GroupChunk
from beam_runner_model.stages import HarnessStage, InputKind
from pieces import Pieces
from tiny_host import TinyHost, new_pipeline, pickle_by_value

from beam_runner_worker.fnapi.descriptors import plan_stage
from beam_runner_worker.fnapi.groups import encode_groups
from beam_runner_worker.fnapi.large_groups import LARGE_BYTES, LargeGroups

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
CAPABILITY = "beam:coder:state_backed_iterable:v1"
VALUE = "x" * 1000
COUNT = 3000


class ReadsTwice(beam.DoFn):
    """A DoFn that emits the number of characters and the number of values of each group."""

    def process(self, group):
        key, values = group
        yield key, f"{sum(len(value) for value in values)} {sum(1 for _ in values)}"


def groups_of(sizes: dict[str, int]) -> TinyHost:
    p = new_pipeline()
    pairs = beam.FlatMap(lambda _: [(key, VALUE) for key in sizes for _ in range(sizes[key])])
    read = (
        p
        | beam.Impulse()
        | pairs.with_output_types(tuple[str, str])
        | beam.GroupByKey()
        | "Read" >> beam.ParDo(ReadsTwice()).with_output_types(tuple[str, str])
    )
    read | "Group again" >> beam.GroupByKey()
    return TinyHost(p)


def reading_stage(host: TinyHost, serve: Any) -> tuple[HarnessStage, Any]:
    """Returns the stage that reads groups, after the previous stages have run."""
    server = serve(host)
    for spec in host.specs:
        harness = server.get_harness(spec.environment_id)
        if spec.input.kind is InputKind.GROUPS:
            spec = with_capabilities(spec, CAPABILITY)
            return spec, harness.get_stage_harness(spec, host.side_inputs(spec))
        host.run_stage(spec, harness)
    raise AssertionError("no stage reads groups")


def with_capabilities(spec: HarnessStage, *capabilities: str, inside: bool = False) -> HarnessStage:
    """Returns the stage with an SDK with these capabilities, or with several such SDKs."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    environment = descriptor.environments[spec.environment_id]
    environment.capabilities[:] = capabilities
    if inside:
        several = beam_runner_api_pb2.AnyOfEnvironmentPayload(environments=[environment] * 2)
        environment.CopyFrom(
            beam_runner_api_pb2.Environment(
                urn="beam:env:anyof:v1", payload=several.SerializeToString()
            )
        )
    return attrs.evolve(spec, descriptor=descriptor.SerializeToString())


@pytest.mark.parametrize("in_pieces", [False, True])
def test_large_groups_between_small_groups_are_read(serve, in_pieces):
    sizes = {"a": 2, "b": COUNT, "c": 3, "d": 70}
    host = groups_of(sizes)
    spec, stage = reading_stage(host, serve)
    (chunk,) = host.inputs(spec)
    if in_pieces:
        chunk = attrs.evolve(chunk, values=[_cut(values) for values in chunk.values])
    ports = host.outputs(spec)
    stage.process_bundle("b", [chunk, FlushBarrier(), chunk], ports)
    (port,) = ports.values()
    # Strings of less than 128 bytes have a length prefix of one byte.
    read = sorted((key[1:].decode(), value[1:].decode()) for key, value, _, _ in port.rows)
    expected = {key: f"{count * len(VALUE)} {count}" for key, count in sizes.items()}
    assert read == sorted([*expected.items()] * 2)


def _cut(values: bytes) -> Pieces | bytes:
    """Returns byte strings of 100 length-prefixed values each."""
    size = 100 * (len(VALUE) + 2)
    if len(values) < size:
        return values
    return Pieces(*(values[begin : begin + size] for begin in range(0, len(values), size)))


def test_groups_are_read_as_state_only_by_sdks_with_capability(serve):
    spec, _ = reading_stage(groups_of({"a": 1}), serve)
    for inside in (False, True):
        for capabilities, able in ((["other", CAPABILITY], True), (["other"], False)):
            one = with_capabilities(spec, *capabilities, inside=inside)
            assert plan_stage(one, "endpoint").large_groups is able


def test_groups_are_sent_completely_to_other_sdks() -> None:
    values = Pieces(b"\x01a" * LARGE_BYTES, b"\x01b")
    chunk = GroupChunk([b"\x01k"], b"", [0], [LARGE_BYTES + 1], [values], b"\x0f")
    ((data, count),) = encode_groups(chunk, 1 << 20)
    assert count == 1
    assert data.endswith(b"\x01a\x01b")
    assert len(data) > 2 * LARGE_BYTES


def test_too_large_group_for_sdk_without_state_backed_iterables_is_refused() -> None:
    class Huge(Pieces):
        def __len__(self) -> int:
            return (1 << 31) - 1

    chunk = GroupChunk([b"\x01k"], b"", [0], [7], [Huge()], b"\x0f")
    with pytest.raises(ValueError, match="doesn't have the capability of state-backed iterables"):
        list(encode_groups(chunk, 1 << 20))


def test_group_pages_can_be_requested_repeatedly_until_bundle_ends() -> None:
    groups = LargeGroups()
    names = [groups.add_group(Pieces(b"one", b"two"))[-1:], groups.add_group(b"three")[-1:]]
    for _ in range(2):
        assert groups.read_page(names[0], b"") == (b"one", b"1")
        assert groups.read_page(names[0], b"1") == (b"two", b"")
        assert groups.read_page(names[1], b"") == (b"three", b"")
    groups.clear_groups()
    with pytest.raises(LookupError, match="no group"):
        groups.read_page(names[0], b"")
    assert groups.add_group(b"four")[-1:] not in names


def test_group_values_read_as_state_count_as_sent() -> None:
    groups = LargeGroups()
    values = b"\x01a" * LARGE_BYTES
    chunk = GroupChunk([b"\x01k"] * 10, b"", [0] * 10, [LARGE_BYTES] * 10, [values] * 10, b"\x0f")
    pieces = list(encode_groups(chunk, 4 * len(values), groups))
    assert [count for _, count in pieces] == [4, 4, 2]
    assert sum(len(data) for data, _ in pieces) < 1000
