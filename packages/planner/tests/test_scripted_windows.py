"""Tests that TestStream elements with explicit windows are taken out of their holders."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.internal import pickler
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.scripted_windows import unwrap_windowed_value_holders

HELD = WindowedValue(
    "a",
    Timestamp(5),
    [IntervalWindow(5, 10)],
    PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0),
)


def pardos(element: Any) -> list[_protos.PTransform]:
    """Returns the transforms that the planner adds after a TestStream with this element."""
    proto = samples.proto_of(lambda p: p | Stream().add_elements([element]) | beam.Map(str))
    known = set(proto.components.transforms)
    unwrap_windowed_value_holders(proto)
    added = set(proto.components.transforms) - known
    siblings = {*proto.root_transform_ids}
    siblings.update(s for t in proto.components.transforms.values() for s in t.subtransforms)
    assert added <= siblings
    return [proto.components.transforms[transform_id] for transform_id in added]


def test_test_stream_windowed_value_holders_are_unwrapped() -> None:
    (added,) = pardos(WindowedValueHolder(HELD))
    payload = _protos.ParDoPayload.FromString(added.spec.payload)
    fn = pickler.loads(payload.do_fn.payload)[0]
    assert fn.process(WindowedValueHolder(HELD)) == [HELD]
    assert fn.process("plain") == ["plain"]


def test_test_stream_holder_unwrapping_code_imports_only_beam() -> None:
    (added,) = pardos(WindowedValueHolder(HELD))
    pickled = _protos.ParDoPayload.FromString(added.spec.payload).do_fn.payload
    code = (
        "import sys; sys.modules['beam_spark_executor'] = None\n"
        "from apache_beam.internal import pickler\n"
        f"assert pickler.loads({pickled!r})[0].process(1) == [1]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_test_stream_elements_without_holders_need_no_unwrapping() -> None:
    assert pardos("windowed_value") == []


def test_test_stream_holders_of_another_python_version_are_refused() -> None:
    holder = WindowedValueHolder(HELD)
    proto = samples.proto_of(lambda p: p | Stream().add_elements([holder]) | beam.Map(str))
    for environment in proto.components.environments.values():
        environment.capabilities[:] = ["beam:version:sdk_base:apache/beam_python3.13_sdk:2.76.0"]
    with pytest.raises(
        UnsupportedPipeline, match="uses Beam 2.76.0 and Python 3.13, and the server"
    ):
        unwrap_windowed_value_holders(proto)
