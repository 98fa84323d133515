"""Simulated caller that moves a job to other graphs, and checks each update against a model."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP

from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.commands import Bundle, Command
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Event, Output, SplitDone, Start
from beam_runner_engine.scheduler.kept_state import Identities, SavedJobState
from beam_runner_engine.scheduler.overtaking import LateDataViolation, WatermarkChecker
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.refusals import Refusal, RefusalKind, TransferRefused
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, SideInputSpec, StageSpec
from beam_runner_engine.scheduler.transfer import transfer_job_state

from .host import SimulatedHost
from .usercode import Behaviour, Element, Result
from .watermark_model import WatermarkModel

Mutation = Callable[[Scheduler, SavedJobState], SavedJobState]


@attrs.frozen
class Edit:
    """Edit of a graph: the new graph, and what becomes of the parts of the old graph.

    Attributes:
        graph: the graph after the edit.
        stages: the new name of each renamed stage, by its old name.
        collections: the new name of each renamed collection, by its old name.
        behaviours: the behavior of each new stage.
        roots: the data of each new root.
        dropped: whether the data of removed stages is dropped.
        late: whether a new source can be behind the watermark of its collection.
    """

    graph: GraphSpec
    stages: dict[str, str] = attrs.field(factory=dict)
    collections: dict[str, str] = attrs.field(factory=dict)
    behaviours: dict[str, Behaviour] = attrs.field(factory=dict)
    roots: dict[str, list[Element]] = attrs.field(factory=dict)
    dropped: bool = False
    late: bool = False


def list_contents(kept: SavedJobState) -> list[Any]:
    """Returns the data that work and side inputs need, independent of the numbers that identify
    data and bundles.
    """
    data = [piece.data for piece in kept.pieces]
    contents: list[Any] = [kept.now, kept.collections]
    for stage in kept.stages:
        contents.append(attrs.evolve(stage, work=(), side_inputs=()))
        contents += [(data[one.piece], attrs.evolve(one, piece=0)) for one in stage.work]
        for side in stage.side_inputs:
            contents.append((side.name, side.collection))
            contents += [
                (one.window, [data[piece] for piece in one.pieces]) for one in side.windows
            ]
    return contents


class LenientChecker(WatermarkChecker):
    """Checker for jobs whose new sources can be behind the watermark."""

    def take_violations(self) -> list[LateDataViolation]:
        super().take_violations()
        return []


class UpdatedHost(SimulatedHost):
    """Simulated caller whose job is updated. Names of stages and collections are also their
    identities.
    """

    def __init__(
        self, graph: GraphSpec, behaviours: dict[str, Behaviour], limits: Limits, late: bool
    ) -> None:
        self.halves = not any(one.unbounded for one in behaviours.values())
        super().__init__(graph, behaviours, limits, late)
        self.model = WatermarkModel(graph)
        self.due: dict[str, dict[int, Element]] = {name: {} for name in self.stages}
        """Elements that each stage must process: those that came while the stage read them."""
        self.side_due: dict[tuple[str, str], list[Data]] = {}
        self.resumes: dict[int, int] = {}
        """Earliest time at which each delayed residual can run, by the number of its data."""
        self.ends: dict[tuple[str, int], int] = {}
        """Watermark at which the latest bundle of each key shard ended."""
        self.root_data: dict[str, list[Element]] = {}
        self.handed: list[Data] = []
        """Data of roots that was given with an update."""
        self.updates = 0
        self.refused: Counter[RefusalKind] = Counter()

    # Bookkeeping of the model.

    def start(self, roots: dict[str, list[Element]]) -> None:
        self.root_data = dict(roots)
        super().start(roots)

    def note_committed(self, output: Output) -> None:
        super().note_committed(output)
        self.note_given(output, self.graph.stages)

    def note_given(self, output: Output, readers: Iterable[StageSpec]) -> None:
        for stage in readers:
            if output.collection in stage.inputs:
                self.due[stage.name].update((one.ident, one) for one in output.data.ref.elements)
        for stage in self.graph.stages:
            for side in stage.side_inputs:
                if side.collection == output.collection:
                    self.side_due.setdefault((stage.name, side.name), []).append(output.data)

    def complete(self, number: int, most: int = 2) -> None:
        bundle = self.open[number]
        super().complete(number, most)
        if bundle.shard is not None:
            self.ends[bundle.stage, bundle.shard] = bundle.end_watermark

    def handle(self, event: Event) -> tuple[Command, ...]:
        self.note_event(event)
        return super().handle(event)

    def note_event(self, event: Event) -> None:
        """Tells the model of an event, before the scheduler's commands are checked."""
        state = self.scheduler.state
        match event:
            case Start(_, roots):
                self.model.deliver(roots, self.graph.stages)
            case BundleDone(number):
                self.model.commit(state.bundles[number].bundle, event)
            case SplitDone(number):
                self.model.split(state.bundles[number].bundle, event)
        if isinstance(event, BundleDone):
            for residual in event.residuals:
                self.resumes[residual.data.ref.number] = self.scheduler.now + residual.delay

    def elements_for(self, spec: StageSpec) -> list[Element]:
        return list(self.due[spec.name].values())

    def side_data_of(self, stage: str, side: SideInputSpec) -> list[Data]:
        return self.side_due.get((stage, side.name), [])

    def watermark_of(self, collection: str) -> int:
        return self.model.collections[collection]

    @property
    def given(self) -> set[int]:
        return super().given | {data.ref.number for data in self.handed}

    # Checks.

    def check_opening(self, stage: str, bundle: Bundle) -> None:
        super().check_opening(stage, bundle)
        assert bundle.number not in self.opened, "a number was used before"
        if bundle.shard is not None and not self.stages[stage].joint_shards:
            end = self.ends.get((stage, bundle.shard), MIN_TIMESTAMP)
            assert bundle.input_watermark >= end, "late data becomes on time"
            assert bundle.end_watermark >= end
        for one in bundle.inputs:
            due = self.resumes.get(one.data.ref.number, 0)
            assert bundle.draining or self.scheduler.now >= due, "a delay was cut short"

    def check_watermarks(self) -> None:
        super().check_watermarks()
        if self.scheduler.phase.has_ended:
            return
        holds: dict[str, list[int]] = {}
        for (stage, _), keep in self.keeps.items():
            summary = self.summary(self.stages[stage], keep)
            holds.setdefault(stage, []).extend(time for time, _ in summary.holds)
        self.model.advance(holds)
        expected = {name: stage.watermarks for name, stage in self.model.stages.items()}
        assert self.watermarks == expected, "other watermarks than the model's"

    # Updates.

    def update(self, edit: Edit, mutation: Mutation | None = None) -> bool:
        """Moves the job to another graph, and returns whether it moved. A refused update changes
        nothing.
        """
        before = pickle.dumps(self.scheduler)
        try:
            kept = capture_job_state(self.scheduler.state, self.name_old_parts())
            if mutation is not None:
                kept = mutation(self.scheduler, kept)
            known = self.name_new_parts(edit)
            removed = self.stages.keys() - set(known.stages.values())
            roots = self.make_roots(edit)
            state, commands = transfer_job_state(
                kept,
                edit.graph,
                known,
                roots,
                limits=self.limits,
                policy=self.scheduler.state.policy,
                dropped=frozenset(removed) if edit.dropped else frozenset(),
            )
        except TransferRefused as error:
            assert pickle.dumps(self.scheduler) == before, "a refused update changes nothing"
            self.check_refusals(error.refusals, edit)
            return False
        self.check_dropped(removed, edit)
        unchanged = edit.graph == self.graph
        self.adopt(edit, Scheduler.from_state(state), roots, commands)
        if unchanged:
            again = capture_job_state(self.scheduler.state, self.name_old_parts())
            assert list_contents(again) == list_contents(kept), "the same graph lost something"
        return True

    def name_old_parts(self) -> Identities:
        names = {name: name for stage in self.graph.stages for name in stage.outputs}
        return Identities({name: name for name in self.stages}, names)

    def name_new_parts(self, edit: Edit) -> Identities:
        """Returns the identities of the parts of the edited graph that the job knows."""
        stages = {edit.stages.get(name, name): name for name in self.stages}
        outputs = {name for stage in self.graph.stages for name in stage.outputs}
        collections = {edit.collections.get(name, name): name for name in outputs}
        after = {name for stage in edit.graph.stages for name in stage.outputs}
        sides = {
            (stage.name, side.name): (stages[stage.name], side.name)
            for stage in edit.graph.stages
            if stage.name in stages
            for side in stage.side_inputs
        }
        names = {stage.name for stage in edit.graph.stages}
        return Identities(
            {new: old for new, old in stages.items() if new in names},
            {new: old for new, old in collections.items() if new in after},
            sides,
        )

    def make_roots(self, edit: Edit) -> tuple[Output, ...]:
        """Returns the data of all roots, as a new plan has it: that of known roots once more."""
        elements = {**self.root_data, **edit.roots}
        return tuple(
            output
            for name in edit.graph.roots
            for output in self.outputs(name, elements.get(name, []))
        )

    def adopt(
        self,
        edit: Edit,
        scheduler: Scheduler,
        roots: tuple[Output, ...],
        commands: tuple[Command, ...],
    ) -> None:
        """Continues with another scheduler. All open bundles are given up."""
        known = set(self.stages)
        self.rename(edit)
        self.graph, self.scheduler = edit.graph, scheduler
        self.stages = {stage.name: stage for stage in edit.graph.stages}
        self.behaviours.update(edit.behaviours)
        self.root_data.update(edit.roots)
        for lost in (self.open, self.asked, self.paused, self.failed, self.checkpointed):
            lost.clear()
        self.whole.clear()
        for of_stages in (self.processed, self.due, self.watermarks):
            for name in [name for name in of_stages if name not in self.stages]:
                del of_stages[name]
        for place in [place for place in self.keeps if place[0] not in self.stages]:
            del self.keeps[place]
        self.forget_side_inputs()
        for name in self.stages:
            self.processed.setdefault(name, Counter())
            self.due.setdefault(name, {})
        new = [
            stage
            for stage in edit.graph.stages
            if stage.name not in {edit.stages.get(name, name) for name in known}
        ]
        self.model.follow(edit.graph)
        self.model.deliver(roots, new)
        self.handed += [output.data for output in roots]
        for output in roots:
            if any(output.collection in stage.inputs for stage in new):
                self.note_given(output, new)
        if edit.late:
            self.late_sources, self.watch = True, LenientChecker()
        self.wake = None
        self.updates += 1
        self.check_watermarks()
        for command in commands:
            self.carry_out(command)
        self.check_open()

    def rename(self, edit: Edit) -> None:
        def renamed(named: dict[Any, Any]) -> None:
            moved = {
                (edit.stages.get(key[0], key[0]), *key[1:])
                if isinstance(key, tuple)
                else edit.stages.get(key, key): value
                for key, value in named.items()
            }
            named.clear()
            named.update(moved)

        for named in (self.behaviours, self.processed, self.due, self.watermarks):
            renamed(named)
        for of_places in (self.keeps, self.side_due, self.ends):
            renamed(of_places)
        self.model.rename(edit.stages, edit.collections)

    def forget_side_inputs(self) -> None:
        """Forgets the data of side inputs that are gone."""
        places = {
            (stage.name, side.name) for stage in self.graph.stages for side in stage.side_inputs
        }
        for place in [place for place in self.side_due if place not in places]:
            del self.side_due[place]

    def check_dropped(self, removed: Iterable[str], edit: Edit) -> None:
        for name in removed:
            assert edit.dropped or not self.is_waiting(name), "data was lost without consent"

    def is_waiting(self, stage: str) -> bool:
        """Returns whether a stage has unfinished work or a waiting key shard."""
        keeps = (keep for (name, _), keep in self.keeps.items() if name == stage)
        spec = self.stages[stage]
        waits = any(self.summary(spec, keep) != EMPTY_SUMMARY for keep in keeps)
        return waits or bool(self.model.stages[stage].pending)

    def check_refusals(self, refusals: tuple[Refusal, ...], edit: Edit) -> None:
        """Checks that each refusal has a reason."""
        for refusal in refusals:
            self.refused[refusal.kind] += 1
            match refusal.kind:
                case RefusalKind.PHASE:
                    assert refusal.detail == "draining"
                case RefusalKind.WORK_LEFT | RefusalKind.STATE_LEFT:
                    assert self.is_waiting(refusal.identity)
                    assert not edit.dropped
                case RefusalKind.ENDED_SIDE_INPUT:
                    assert self.model.collections[refusal.identity] == MAX_TIMESTAMP
                case RefusalKind.ENDED_INPUT:
                    known = self.model.stages.get(refusal.identity)
                    watermark = (
                        self.model.collections[refusal.identity]
                        if known is None
                        else known.upstream
                    )
                    assert watermark == MAX_TIMESTAMP
                case _:
                    raise AssertionError(refusal)

    def new_scheduler(self) -> Scheduler:
        return Scheduler(self.graph, self.limits, DefaultPolicy(halves_restrictions=self.halves))

    def check_on_time(self, stage: str, result: Result) -> None:
        if not self.behaviours[stage].late:
            super().check_on_time(stage, result)
