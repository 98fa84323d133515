"""Execution times of transforms, sampled by one thread of the process.

Beam's bundle loop starts a sampling thread for every bundle, and waits 50 to 170 ms for its end. In
this module, one thread samples for the whole life of the process, and never holds the GIL. So the
sampling adds no time to a bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Container
from typing import Any

from apache_beam.coders import VarIntCoder
from apache_beam.runners import common
from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory, CounterName
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.threads import start_helper_thread
from beam_runner_urns import metrics as urns

SAMPLING_MS = 25
"""Sampling period in milliseconds. A time of one bundle has about this precision. A sum over many
bundles is more precise.
"""

_URNS = {
    "start": urns.START_BUNDLE_MSECS,
    "process": urns.PROCESS_BUNDLE_MSECS,
    "process-timers": urns.PROCESS_BUNDLE_MSECS,
    "finish": urns.FINISH_BUNDLE_MSECS,
}
_MILLISECONDS = VarIntCoder()
_lock = threading.Lock()
_sampler: Any = None


def get_process_sampler() -> Any:
    """Returns the state sampler of the process. The first call starts the sampler. Must not be
    called before a fork.

    Without Beam's compiled modules the sampler takes no samples, and all times are 0.
    """
    global _sampler
    with _lock:
        if _sampler is None:
            _sampler = statesampler.StateSampler("embedded", CounterFactory(), SAMPLING_MS)
            if statesampler.FAST_SAMPLER:
                start_helper_thread(_sampler.run, "times")
        return _sampler


class ExecutionTimes:
    """Execution times of the operations of one stage. The operations use this object as Beam's state
    sampler.

    Args:
        edges: ids of transforms that the runner adds; their times aren't reported.

    Attributes:
        sampler: the underlying sampler.
    """

    def __init__(self, edges: Container[str]) -> None:
        self._edges = edges
        self.sampler = get_process_sampler()
        self._states: dict[CounterName, Any] = {}
        self._timed: dict[tuple[str, str], list[Any]] = {}
        self._before: dict[tuple[str, str], int] = {}
        self._told = False

    def scoped_state(
        self,
        name_context: common.NameContext | str,
        state_name: str,
        io_target: Any = None,
        metrics_container: Any = None,
    ) -> Any:
        """Returns the state object that measures the start, the processing or the finish of a step.
        Equal names get the same object.
        """
        if isinstance(name_context, str):
            name_context = common.NameContext(name_context)
        name = CounterName(
            f"{state_name}-msecs", step_name=name_context.metrics_name(), io_target=io_target
        )
        state = self._states.get(name)
        if state is None:
            # Don't use the `scoped_state` method of the sampler, because a stage that is built
            # again needs new states.
            make = self.sampler._scoped_state
            state = self._states[name] = make(name, name_context, None, metrics_container)
            urn, transform_id = _URNS.get(state_name), name_context.transform_id
            if urn is not None and transform_id and transform_id not in self._edges:
                self._timed.setdefault((transform_id, urn), []).append(state)
        return state

    def current_state(self) -> Any:
        """Returns the state in which the process currently is."""
        return self.sampler.current_state()

    def reset(self) -> None:
        """Resets the times. Fractions of a millisecond are added to the next bundle."""
        self._told = bool(self._before)
        self._before = {place: _sum_milliseconds(states) for place, states in self._timed.items()}

    def monitoring_infos(self) -> tuple[MonitoringInfo, ...]:
        """Returns the execution times in milliseconds since the last reset, as metrics.

        The first bundle reports every transform, so that no transform is missing in the totals.
        Later bundles report only transforms with a time above 0.
        """
        infos = []
        totals: dict[str, int] = {}
        for place, states in self._timed.items():
            transform_id, urn = place
            spent = _sum_milliseconds(states) - self._before.get(place, 0)
            totals[transform_id] = totals.get(transform_id, 0) + spent
            if spent or not self._told:
                infos.append(_create_time_info(urn, transform_id, spent))
        infos += [
            _create_time_info(urns.TOTAL_MSECS, transform_id, spent)
            for transform_id, spent in totals.items()
            if spent or not self._told
        ]
        return tuple(infos)


def _sum_milliseconds(states: list[Any]) -> int:
    return sum(state.nsecs for state in states) // 1_000_000


def _create_time_info(urn: str, transform_id: str, milliseconds: int) -> MonitoringInfo:
    return MonitoringInfo(
        urn,
        urns.SUM_INT64_TYPE,
        ((urns.LABEL_TRANSFORM, transform_id),),
        _MILLISECONDS.encode(milliseconds),
    )
