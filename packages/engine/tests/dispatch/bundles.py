"""Bundles for dispatch tests; bundles of sources have numbers from 100."""

from __future__ import annotations

from beam_runner_engine.scheduler.commands import Bundle


def bundle(number: int, attempt: int = 1, shard: int | None = None) -> Bundle:
    return Bundle(number, attempt, "stage", shard, (), (), 0, 0, 0, 0)


def is_source(one: Bundle) -> bool:
    return one.number >= 100
