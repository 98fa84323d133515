"""Plan of a replay: selects the quarantined units that are fed back into their stages, and reports
why other units aren't.

The plan depends on the ledger. Therefore, the job's thread computes the plan and appends the
resulting journal entry without other entries between. The entry contains the data of the units, and
marks the units as replayed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import Redeliver
from beam_runner_engine.scheduler.reports import StageReport
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.quarantine import QuarantinedUnitKind
from beam_runner_model.replays import ReplayProblem, ReplayReport, UnreplayedUnits
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.window_coders import SKIP_WINDOW, decode_window
from beam_runner_model.windowed_values import TIME_BYTES, read_event_time, read_windows
from beam_runner_planner.plan import StagePlan
from beam_runner_worker.fnapi.input_elements import InputElements

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import ReplayedUnits
from beam_runner_driver.quarantine.quarantine_rows import QuarantineRow

_ELEMENT_BUFFERS = (BufferKind.STORED, BufferKind.DEALT, BufferKind.KEYED)


@attrs.frozen
class _ReplayTarget:
    """Stage into which a replay feeds units (elements, groups, timers) from quarantine files.

    Attributes:
        stage: the stage.
        buffer: the input buffer of the stage.
        report: status report of the stage, with its watermarks.
    """

    stage: StagePlan
    buffer: BufferPlan
    report: StageReport

    @property
    def drop_watermark(self) -> int:
        """Event time (ms) before which the stage, or a later stage, can drop elements as late."""
        report, is_keyed = self.report, self.buffer.kind.is_keyed
        return report.upstream_watermark if is_keyed else report.output_watermark

    def accepts(self, encoded: bytes, *, expired: bool) -> bool:
        """Returns whether a replay feeds a windowed value into the stage.

        Args:
            encoded: the windowed value.
            expired: whether to accept values of expired windows. A stage with state or side inputs
                doesn't accept them anyway, because the data of expired windows is deleted.
        """
        if expired and not (self.buffer.kind.is_keyed or self.stage.side_inputs):
            return True
        return not self._is_expired(encoded)

    def _is_expired(self, encoded: bytes) -> bool:
        strategy = self.buffer.strategy
        assert strategy is not None
        coder = strategy.window_coder
        windows, _ = read_windows(encoded, TIME_BYTES, SKIP_WINDOW[coder])
        ends = (strategy.get_expiry_time(decode_window(coder, window)) for window in windows)
        return all(self.drop_watermark > end for end in ends)


def plan_replay(
    ledger: JobLedger, units: Iterable[QuarantineRow], *, expired: bool = False
) -> tuple[ReplayedUnits | None, ReplayReport]:
    """Returns the journal entry that feeds quarantined units (elements, groups, timers) back into
    their stages, and a report about all units.

    Args:
        ledger: committed state of the job. The entry must be the next entry of its journal.
        units: units from the quarantine files that the ledger lists.
        expired: whether stages without state and side inputs also get elements whose windows have
            expired. Later GroupByKeys drop such elements.

    Returns:
        The entry and the report. The entry is None if no unit can be replayed.
    """
    problems: list[UnreplayedUnits] = []
    chosen: dict[str, list[QuarantineRow]] = {}
    targets: dict[str, _ReplayTarget] = {}
    earlier = late = 0
    stages = {stage.identity: stage for stage in ledger.plan.stages.values()}
    for unit in units:
        if ledger.quarantine.is_replayed(unit.file, unit.row):
            earlier += 1
            continue
        identity = ledger.quarantine.files[unit.file].stage
        found = _find_replay_target(ledger, unit, stages.get(identity))
        if isinstance(found, _ReplayTarget) and not found.accepts(unit.encoded, expired=expired):
            found = UnreplayedUnits(ReplayProblem.EXPIRED, unit.step, 1)
        if isinstance(found, UnreplayedUnits):
            problems.append(found)
            continue
        targets[identity] = found
        chosen.setdefault(identity, []).append(unit)
        late += read_event_time(unit.encoded) < found.report.input_watermark
    replayed = [unit for found in chosen.values() for unit in found]
    report = ReplayReport().add(ReplayReport(len(replayed), late, earlier, tuple(problems)))
    if not replayed:
        return None, report
    deliveries = tuple(
        Redeliver(
            targets[name].stage.stage_id, _make_stage_input(targets[name], found, ledger.shards)
        )
        for name, found in chosen.items()
    )
    return ReplayedUnits(tuple((unit.file, unit.row) for unit in replayed), deliveries), report


def _find_replay_target(
    ledger: JobLedger, unit: QuarantineRow, stage: StagePlan | None
) -> _ReplayTarget | UnreplayedUnits:
    """Returns the stage into which a replay feeds a unit (element, group or timer), or the reason
    why the unit can't be replayed.
    """
    if unit.kind is not QuarantinedUnitKind.ELEMENT:
        return UnreplayedUnits(ReplayProblem.NOT_AN_ELEMENT, unit.step, 1, unit.kind.value)
    if stage is None:
        return UnreplayedUnits(ReplayProblem.NO_STEP, unit.step, 1)
    coders = ledger.quarantine.files[unit.file].coders
    buffer = None if stage.input_buffer is None else ledger.plan.buffers[stage.input_buffer]
    if coders or buffer is None or buffer.kind not in _ELEMENT_BUFFERS or buffer.restrictions:
        return UnreplayedUnits(ReplayProblem.CODER_CHANGED, unit.step, 1, " -> ".join(coders))
    report = ledger.create_stage_report(stage.stage_id)
    is_running = ledger.scheduler_state.phase is Phase.RUNNING
    if report.output_watermark == MAX_TIMESTAMP or not is_running:
        return UnreplayedUnits(ReplayProblem.STEP_ENDED, unit.step, 1)
    return _ReplayTarget(stage, buffer, report)


def _make_stage_input(
    target: _ReplayTarget, units: Sequence[QuarantineRow], shards: int
) -> tuple[Data, ...]:
    """Returns units (elements, groups, timers) as input data of the stage, in the format that the
    preceding stage writes.
    """
    buffer, first = target.buffer, units[0]
    name = f"replay-{first.file}-{first.row}"
    writer = RowBufferWriter(buffer, shards, Path(), name, inline=sys.maxsize)
    converter = create_row_converter(buffer.kind, shards, 0, writer.write, windows=buffer.windows)
    elements = InputElements(target.stage.spec)
    data = b"".join(unit.encoded for unit in units)
    keyed = buffer.kind is BufferKind.KEYED
    for chunk in elements.convert_to_output_form(data, keyed=keyed, windows=buffer.windows):
        converter.write(chunk)
    return tuple(output.data for output in writer.close())
