"""Tests that code, coders and functions of a client stay bytes in the server: the server runs none of them."""

from __future__ import annotations

import base64
import bz2
import pickle
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import samples
from beam_runner_urns import python_sdk
from google.protobuf.message import DecodeError, Message
from google.protobuf.wrappers_pb2 import BytesValue
from watched import nothing_unpickled

from beam_runner_planner import _protos
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.side_inputs import contains_pickled_name
from beam_runner_planner.translate import plan_job

both_ways = pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)
_PAYLOADS: tuple[type[Any], ...] = (
    _protos.ParDoPayload,
    _protos.CombinePayload,
    _protos.ReadPayload,
    _protos.WindowIntoPayload,
    _protos.TestStreamPayload,
)
_WINDOWS = tuple(f"beam:window_fn:{kind}_windows:v1" for kind in ("fixed", "sliding", "session"))


class _Bomb:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self._trace = str(trace)

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (Path(self._trace), 0o777, True, True)


def packings(trace: Path) -> dict[str, Any]:
    """Returns the formats in which SDKs pack pickled objects."""
    bomb = pickle.dumps(_Bomb(trace))
    packed = {
        "bare": bomb,
        "zlib": base64.b64encode(zlib.compress(bomb)),
        "bz2": base64.b64encode(bz2.compress(bomb)),
    }
    return {
        **packed,
        **{f"{k} in a message": BytesValue(value=v).SerializeToString() for k, v in packed.items()},
    }


def plant(message: Message, bomb: bytes) -> None:
    """Puts the bomb into every payload that isn't a message of the Beam model, at any depth."""
    if isinstance(message, _protos.PTransform):
        message.annotations[python_sdk.APPLY_COMBINER_PACKING] = b""
    for field, value in message.ListFields():
        if field.name == "payload" and isinstance(value, bytes):
            message.payload = _planted(message, value, bomb)  # type: ignore[attr-defined]
        elif field.message_type is not None:
            values = value
            if field.message_type.GetOptions().map_entry:
                values = value.values()
            for part in [value] if isinstance(value, Message) else values:
                if isinstance(part, Message):
                    plant(part, bomb)


def _planted(message: Message, payload: bytes, bomb: bytes) -> bytes:
    urn = getattr(message, "urn", "")
    for kind in _PAYLOADS:
        if urn.startswith("beam:transform:"):
            try:
                inner = kind.FromString(payload)
            except DecodeError:
                continue
            if inner.SerializeToString(deterministic=True) == payload and inner.ListFields():
                plant(inner, bomb)
                return bytes(inner.SerializeToString(deterministic=True))
    return payload if urn.startswith(("beam:env:", *_WINDOWS)) else bomb


def combines_beside_each_other(p: beam.Pipeline) -> None:
    """Builds combines that Beam's own translation packs into one combine if they are annotated."""
    pairs = p | beam.Create([("a", 1)])
    pairs | "least" >> beam.CombinePerKey(min) | "a" >> beam.Map(str)
    pairs | "most" >> beam.CombinePerKey(max) | "b" >> beam.Map(str)


@pytest.mark.parametrize("way", packings(Path("/")))
@both_ways
def test_pipeline_translation_runs_no_client_code(
    tmp_path: Path, way: str, flags: tuple[str, ...]
) -> None:
    trace = tmp_path / "ran"
    bomb = packings(trace)[way]
    planted = 0
    for build in (*samples.ALL, combines_beside_each_other):
        proto = samples.built(build, *flags)
        plant(proto, bomb)
        planted += proto.SerializeToString().count(bomb)
        with nothing_unpickled(), suppress(UnsupportedPipeline, InvalidPipeline):
            plan_job(samples.job_of(proto))
    assert planted > 10 * len(samples.ALL)
    assert not trace.exists()


@pytest.mark.parametrize("build", samples.ALL, ids=lambda build: build.__name__)
def test_pipeline_translation_unpickles_no_payload(build: samples.Build) -> None:
    proto = samples.built(build)
    with nothing_unpickled():
        assert plan_job(samples.job_of(proto)).context.job_id == "job-1"


def test_malicious_pickle_of_these_tests_runs_code_if_unpickled(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="pathlib"), nothing_unpickled():
        pickle.loads(packings(tmp_path / "ran")["bare"])
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("compress", [zlib.compress, bz2.compress])
def test_compressed_payloads_are_inspected_within_limits(compress: Any) -> None:
    name = b"AsSingleton"
    assert contains_pickled_name(base64.b64encode(compress(b"x" * 1000 + name)), name)
    assert not contains_pickled_name(base64.b64encode(compress(b"x" * 1000)), name)
    for broken in (b"", b"%", base64.b64encode(b"BZh9"), base64.b64encode(b"none of them")):
        assert not contains_pickled_name(broken, name)
    large = base64.b64encode(compress(bytes(64 << 20)))
    tracemalloc.start()
    try:
        assert not contains_pickled_name(large, name)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
