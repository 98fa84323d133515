"""Tests of the cache tokens of side inputs: when an SDK gets a token, and when the token
changes.
"""

from __future__ import annotations

import pytest
from beam_runner_urns import transforms as urns

from beam_runner_worker._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_worker.fnapi.cache_tokens import SideInputTokens, find_cacheable_side_inputs
from beam_runner_worker.ports import SideInputReader

GO, JAVA = "beam:go:transform:dofn:v1", "beam:dofn:javasdk:0.1"
PYTHON = "beam:dofn:pickled_python_info:v1"


class Versions(SideInputReader):
    """Side inputs without data, whose version a test sets."""

    def __init__(self) -> None:
        self.versions = {("p", "a"): 0, ("p", "b"): 0}

    def get_version(self, transform_id: str, tag: str) -> int:
        return self.versions[transform_id, tag]


def describe_stage(dofn: str, urn: str = urns.PAR_DO) -> beam_fn_api_pb2.ProcessBundleDescriptor:
    payload = beam_runner_api_pb2.ParDoPayload()
    payload.do_fn.urn = dofn
    for tag in ("b", "a"):
        payload.side_inputs[tag].SetInParent()
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor()
    descriptor.transforms["source"].spec.urn = urns.DATA_SOURCE
    descriptor.transforms["p"].spec.urn = urn
    descriptor.transforms["p"].spec.payload = payload.SerializeToString()
    return descriptor


@pytest.mark.parametrize("dofn", [GO, JAVA])
@pytest.mark.parametrize("urn", [urns.PAR_DO, urns.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS])
def test_side_inputs_of_sdk_with_cache_get_cache_tokens(dofn: str, urn: str) -> None:
    assert find_cacheable_side_inputs(describe_stage(dofn, urn)) == (("p", "a"), ("p", "b"))


def test_side_inputs_of_python_sdk_get_no_cache_tokens() -> None:
    assert find_cacheable_side_inputs(describe_stage(PYTHON)) == ()


def test_cache_token_changes_only_with_the_version_of_its_side_input() -> None:
    reader = Versions()
    tokens = SideInputTokens((("p", "a"), ("p", "b")), reader)
    before = tokens.list_cache_tokens()
    assert tokens.list_cache_tokens() == before
    reader.versions["p", "a"] += 1
    after = tokens.list_cache_tokens()
    assert after[0].token != before[0].token
    assert after[1] == before[1]
    assert [(t.side_input.transform_id, t.side_input.side_input_id) for t in after] == [
        ("p", "a"),
        ("p", "b"),
    ]


def test_cache_tokens_of_two_stages_differ() -> None:
    reader = Versions()
    first, second = (SideInputTokens((("p", "a"),), reader).list_cache_tokens() for _ in range(2))
    assert first[0].token != second[0].token
