"""Tests of an SDK's merge responses: any order and any encoding of counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import pytest
from beam_runner_model.bundles import BundleResult
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.panes import NO_FIRING, PaneInfo, PaneTiming, encode_pane
from beam_runner_model.varints import encode_varint
from beam_runner_model.window_coders import WindowCoder, encode_instant, encode_window
from beam_runner_model.windows import IntervalWindow, OpaqueWindow, Window
from beam_runner_worker.ports import OutputPort

from beam_runner_runtime.bundles.merging import SdkMerger


def iterable(items: Sequence[bytes], *, counted: bool) -> bytes:
    """Returns items after their count, or in batches of one item if their count is unknown."""
    if counted:
        return b"".join((len(items).to_bytes(4), *items))
    batches = [part for item in items for part in (encode_varint(1), item)]
    return b"".join((b"\xff\xff\xff\xff", *batches, encode_varint(0)))


@attrs.define
class Sdk:
    """A partial ``StageHarness`` that merges the first two windows of a key into the last window."""

    counted: bool
    pane: PaneInfo
    bundles: list[str] = attrs.field(factory=list)

    def process_bundle(
        self, bundle_id: str, inputs: Iterable[Any], outputs: Mapping[str, OutputPort]
    ) -> BundleResult:
        self.bundles.append(bundle_id)
        questions = [question for chunk in inputs for question in self.questions_in(chunk)]
        for nonce, windows in reversed(questions):
            originals = iterable(windows[:2], counted=self.counted)
            answer = b"".join(
                (
                    encode_instant(5) + (1).to_bytes(4) + encode_pane(self.pane),
                    encode_varint(len(nonce)) + nonce,
                    iterable(windows[2:], counted=self.counted),
                    iterable([windows[-1] + originals], counted=self.counted),
                )
            )
            outputs["write"].write(ElementChunk(1, answer))
        return BundleResult(())

    def questions_in(self, chunk: ElementChunk) -> Iterable[tuple[bytes, list[bytes]]]:
        """Returns nonces and windows of nine bytes each, the only content of the test requests."""
        data, position = bytes(chunk.data), 0
        for _ in range(chunk.count):
            assert data[position + 8 : position + 12] == (1).to_bytes(4)
            position += 13
            end = position + 1 + data[position]
            nonce = data[position + 1 : end]
            count = int.from_bytes(data[end : end + 4])
            position = end + 4 + 9 * count
            yield nonce, [data[p : p + 9] for p in range(end + 4, position, 9)]


KINDS: dict[WindowCoder, list[Window]] = {
    WindowCoder.INTERVAL: [IntervalWindow(n, n + 10) for n in range(3)],
    WindowCoder.CUSTOM: [OpaqueWindow(b"", n) for n in range(3)],
}


@pytest.mark.parametrize("coder", KINDS)
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("pane", [NO_FIRING, PaneInfo(timing=PaneTiming.LATE, index=300)])
def test_window_merging_request_returns_response_per_key(
    coder: WindowCoder, counted: bool, pane: PaneInfo
) -> None:
    windows = KINDS[coder]
    assert all(len(encode_window(window)) == 9 for window in windows)
    sdk = Sdk(counted, pane)
    merger = SdkMerger(sdk, "write", coder)  # type: ignore[arg-type]
    one, two, three = windows
    for _ in range(2):
        assert merger.merge_windows([windows, windows[::-1]]) == [
            {one: three, two: three},
            {three: one, two: one},
        ]
    assert len(set(sdk.bundles)) == 2


def test_window_merging_request_sends_many_keys_in_one_bundle() -> None:
    windows = KINDS[WindowCoder.CUSTOM]
    sdk = Sdk(counted=True, pane=NO_FIRING)
    merger = SdkMerger(sdk, "write", WindowCoder.CUSTOM)  # type: ignore[arg-type]
    answers = merger.merge_windows([windows] * 2001)
    assert len(answers) == 2001 and all(len(answer) == 2 for answer in answers)
    assert len(sdk.bundles) == 1
