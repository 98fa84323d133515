"""Tests of the digests of pickles."""

from __future__ import annotations

import base64
import pickle
import zlib
from typing import Any

import pytest
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.internal import pickler
from apache_beam.runners.pipeline_context import PipelineContext
from beam_runner_model.window_fns import OpaqueWindows
from beam_runner_urns import python_sdk

from beam_runner_planner import _protos
from beam_runner_planner.updates.coders import CoderTree, compare_coders
from beam_runner_planner.updates.pickles import digest_pickle
from beam_runner_planner.updates.strategies import is_same_window_fn_kind

CODER = """
class Words(Coder):
    def encode(self, value):
        return {body}
    def decode(self, data):
        return data.decode()
"""


def pickled_class(body: str = "value.encode()", before: str = "", path: str = "job.py") -> bytes:
    """Returns the pickle of an object whose class is in a script."""
    names: dict[str, Any] = {"Coder": object, "__name__": "__main__"}
    exec(compile(before + CODER.format(body=body), path, "exec"), names)
    return bytes(pickler.dumps(names["Words"]()))


def packed(value: object) -> bytes:
    """Returns a pickle in the format of Beam's pickler."""
    return base64.b64encode(zlib.compress(pickle.dumps(value)))


def test_pickle_digest_ignores_the_path_and_line_numbers_of_a_script() -> None:
    first, second = pickled_class(), pickled_class(before="\n\n\n", path="other/job.py")
    assert first != second
    assert digest_pickle(first) == digest_pickle(second)


def test_custom_windows_of_a_script_are_the_same_kind_in_the_next_submission() -> None:
    def windows(pickled: bytes) -> OpaqueWindows:
        return OpaqueWindows(python_sdk.PICKLED_WINDOWFN, pickled)

    first = windows(pickled_class())
    assert is_same_window_fn_kind(first, windows(pickled_class(before="\n")))
    assert not is_same_window_fn_kind(first, windows(pickled_class("b''")))


def test_pickle_digest_changes_with_the_code() -> None:
    assert digest_pickle(pickled_class()) != digest_pickle(pickled_class("value.encode()[1:]"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        ("a", b"a"),
        ([1, 2], [2, 1]),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
        ({"a": [1]}, {"a": [1, 1]}),
        (1, True),
        (1, 1.0),
        (1 << 80, 1 << 81),
    ],
)
def test_pickle_digests_of_different_values_differ(one: object, other: object) -> None:
    assert digest_pickle(packed(one)) != digest_pickle(packed(other))
    assert digest_pickle(packed(one)) == digest_pickle(packed(one))


def test_pickle_digest_of_a_value_that_contains_itself_exists() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert digest_pickle(packed(value)) != digest_pickle(packed([1]))


def test_pickle_digest_of_shared_values_takes_linear_time() -> None:
    value: Any = ()
    for _ in range(200):
        value = (value, value)
    assert len(digest_pickle(packed(value))) == 32


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"no base64!",
        base64.b64encode(b"not packed"),
        base64.b64encode(zlib.compress(b"no pickle")),
        base64.b64encode(zlib.compress(b"\x80\x04(.")),
        base64.b64encode(zlib.compress(b"\x80\x04h\x05.")),
        base64.b64encode(zlib.compress(b"\x80\x04s.")),
        base64.b64encode(zlib.compress(pickle.dumps(b"x" * (1 << 20)))),
    ],
    ids=["empty", "text", "raw", "garbage", "mark", "unknown-memo", "no-operands", "large"],
)
def test_payload_that_is_not_a_pickle_is_returned_unchanged(payload: bytes) -> None:
    assert digest_pickle(payload) == payload


def test_too_deeply_nested_pickle_is_returned_unchanged() -> None:
    payload = base64.b64encode(zlib.compress(b"\x80\x04)" + b"\x85" * 20_000 + b"."))
    assert digest_pickle(payload) == payload


def test_coder_of_a_script_is_the_same_in_the_next_submission() -> None:
    def coder(pickled: bytes) -> CoderTree:
        message = _protos.BytesValue(value=b"Words$" + pickled)
        return CoderTree(python_sdk.PICKLED_CODER, message.SerializeToString())

    assert compare_coders(coder(pickled_class()), coder(pickled_class(before="\n"))) is None
    assert compare_coders(coder(pickled_class()), coder(pickled_class("b''"))) is not None


def test_coder_of_untyped_keys_is_the_same_in_a_renamed_step() -> None:
    def coder(step: str) -> CoderTree:
        context = PipelineContext()
        keys = FastPrimitivesCoder().as_deterministic_coder(step)
        spec = context.coders.get_by_id(context.coders.get_id(keys)).to_runner_api(context).spec
        return CoderTree(spec.urn, spec.payload)

    old, new = coder("Count/Group"), coder("Tally/Group")
    assert old.payload != new.payload
    assert compare_coders(old, new) is None
