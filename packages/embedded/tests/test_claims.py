"""Tests that every element of a bundle is either processed in the bundle or returned by a split."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from beam_runner_embedded import claims as claims_module
from beam_runner_embedded.claims import ElementClaims


@contextmanager
def letting_others_run_at_every_step() -> Iterator[None]:
    """Makes this thread yield to other threads before each bytecode instruction of the claims."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != claims_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            time.sleep(1e-6)
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(usual)


def claim_all(claims: ElementClaims, count: int, seen: list[int], work: float = 0.0) -> None:
    """Claims all elements of a chunk, as a decoder does. Each element takes the given number of seconds."""
    left: Iterator[int] | None = claims.add_elements(count)
    while left is not None:
        for number in left:
            seen.append(number)
            if work:
                time.sleep(work)
        left = claims.get_remaining_claims()


def test_claimed_element_indexes_continue_across_chunks() -> None:
    claims, seen = ElementClaims(), []
    claim_all(claims, 3, seen)
    claim_all(claims, 0, seen)
    claim_all(claims, 2, seen)
    assert seen == [0, 1, 2, 3, 4]
    assert claims.claimed_count == 5
    claims.start_bundle()
    assert claims.claimed_count == 0


def test_element_loop_paused_by_split_continues_after_release() -> None:
    claims, seen = ElementClaims(), []
    left = claims.add_elements(5)
    seen.append(next(left))
    with claims.pause_claims() as held:
        assert (held.claimed, held.announced, held.stop) == (1, 5, None)
        assert list(left) == []
    assert claims.claimed_count == 1
    more = claims.get_remaining_claims()
    assert more is not None
    assert list(more) == [1, 2, 3, 4]
    assert claims.get_remaining_claims() is None


@pytest.mark.parametrize("stop", [1, 3, 5, 7, 9])
def test_element_loop_ends_at_stop_in_current_or_later_chunk(stop: int) -> None:
    claims, seen = ElementClaims(), []
    left = claims.add_elements(5)
    seen.append(next(left))
    with claims.pause_claims() as held:
        held.stop = stop
    while (more := claims.get_remaining_claims()) is not None:
        seen.extend(more)
    assert claims.is_stopped == (stop <= 5)
    claim_all(claims, 3, seen)
    claim_all(claims, 3, seen)
    assert seen == list(range(stop))
    assert claims.claimed_count == stop
    assert claims.is_stopped


def test_processed_elements_cannot_be_removed_by_a_split() -> None:
    claims, seen = ElementClaims(), []
    claim_all(claims, 3, seen)
    assert not claims.is_stopped
    claims.end_input()
    with claims.pause_claims() as held:
        assert (held.claimed, held.stop) == (3, 3)


@pytest.mark.parametrize("seed", range(10))
def test_concurrent_splits_lose_no_element(seed: int) -> None:
    choose = random.Random(seed)
    claims = ElementClaims()
    seen: list[int] = []

    def loop() -> None:
        sizes = random.Random(seed)
        while len(seen) < 100_000 and not claims.is_stopped:
            claim_all(claims, sizes.choice([0, 1, 7, 300]), seen, work=1e-6)
        claims.end_input()

    loop_thread = threading.Thread(target=loop, daemon=True)
    loop_thread.start()
    holds, stop = 0, None
    with letting_others_run_at_every_step():
        while loop_thread.is_alive():
            with claims.pause_claims() as held:
                holds += 1
                # The processing loop records each claim after the claim.
                assert len(seen) in (held.claimed, held.claimed - 1)
                if held.stop is None and holds > 20:
                    stop = held.stop = held.announced + choose.randrange(1000)
                elif held.stop == stop is not None and choose.random() < 0.3:
                    # The requested numbers of elements decrease while the processing loop
                    # continues.
                    stop = held.stop = choose.randint(held.claimed, stop)
                assert len(seen) in (held.claimed, held.claimed - 1)
    assert holds > 20
    assert stop is not None
    assert seen == list(range(stop))
    assert claims.claimed_count == stop
