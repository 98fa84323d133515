"""Dispatch: runs a job's event loop, and decides which open bundle runs next and in which slot,
within a job and among jobs.
"""

from __future__ import annotations

from beam_runner_engine.dispatch.driver import Driver
from beam_runner_engine.dispatch.idling import find_idle_slots, select_slot_to_release
from beam_runner_engine.dispatch.lease import LoopLease
from beam_runner_engine.dispatch.parallelism import Parallelism
from beam_runner_engine.dispatch.places import BlockedTimes, Slot, select_slot
from beam_runner_engine.dispatch.ports import Host
from beam_runner_engine.dispatch.reporting import ReportTiming
from beam_runner_engine.dispatch.sharing import SlotSharing
from beam_runner_engine.dispatch.small_work import LoopLimits, are_small
from beam_runner_engine.dispatch.turns import JobAdmission
from beam_runner_engine.dispatch.waiting import BundleQueue
from beam_runner_engine.dispatch.yielding import compute_turn_end, select_yielding_slots

__all__ = [
    "BlockedTimes",
    "BundleQueue",
    "Driver",
    "Host",
    "JobAdmission",
    "LoopLease",
    "LoopLimits",
    "Parallelism",
    "ReportTiming",
    "Slot",
    "SlotSharing",
    "are_small",
    "compute_turn_end",
    "find_idle_slots",
    "select_slot",
    "select_slot_to_release",
    "select_yielding_slots",
]
