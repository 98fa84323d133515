"""What runs next among bundles that are open: pure rules over what has happened, for a host to carry out."""

from __future__ import annotations

from beam_runner_engine.dispatch.lease import LoopLease
from beam_runner_engine.dispatch.parallelism import Parallelism
from beam_runner_engine.dispatch.places import Patience, Place, place_for
from beam_runner_engine.dispatch.small_work import LoopLimits, is_small
from beam_runner_engine.dispatch.waiting import WaitingBundles
from beam_runner_engine.dispatch.yielding import in_the_way, turn_ends

__all__ = [
    "LoopLease",
    "LoopLimits",
    "Parallelism",
    "Patience",
    "Place",
    "WaitingBundles",
    "in_the_way",
    "is_small",
    "place_for",
    "turn_ends",
]
