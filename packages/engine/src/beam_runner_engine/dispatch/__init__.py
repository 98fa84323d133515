"""Dispatch: runs a job's event loop, and decides which open bundle runs next and in which slot,
within a job and among jobs.
"""

from __future__ import annotations

from beam_runner_engine.dispatch.driver import Driver
from beam_runner_engine.dispatch.idling import idle_since, place_to_give
from beam_runner_engine.dispatch.lease import LoopLease
from beam_runner_engine.dispatch.parallelism import Parallelism
from beam_runner_engine.dispatch.places import Patience, Place, place_for
from beam_runner_engine.dispatch.ports import Host
from beam_runner_engine.dispatch.reporting import SourceReports
from beam_runner_engine.dispatch.sharing import SharedPlaces
from beam_runner_engine.dispatch.small_work import LoopLimits, is_small
from beam_runner_engine.dispatch.turns import JobTurns
from beam_runner_engine.dispatch.waiting import WaitingBundles
from beam_runner_engine.dispatch.yielding import in_the_way, turn_ends

__all__ = [
    "Driver",
    "Host",
    "JobTurns",
    "LoopLease",
    "LoopLimits",
    "Parallelism",
    "Patience",
    "Place",
    "SharedPlaces",
    "SourceReports",
    "WaitingBundles",
    "idle_since",
    "in_the_way",
    "is_small",
    "place_for",
    "place_to_give",
    "turn_ends",
]
