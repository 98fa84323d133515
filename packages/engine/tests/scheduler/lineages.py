"""Random jobs and random edits of their graphs, for simulated updates."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs
from beam_runner_model.window_fns import GlobalWindows, assign_windows

from beam_runner_engine.scheduler.errors import GraphError
from beam_runner_engine.scheduler.graph import compile_graph
from beam_runner_engine.scheduler.specs import (
    DefaultWindowMapping,
    GraphSpec,
    Limits,
    Pauses,
    SideInputReadiness,
    SideInputSpec,
    StageKind,
    StageSpec,
)

from .graphs import WINDOW_FNS
from .updated_host import Edit, UpdatedHost
from .usercode import ENDLESS, Behaviour, Element


class Lineage:
    """Job with random stages, and the random edits of its graph.

    Attributes:
        host: the host of the job.
        roots: the data of the job's roots at its start.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.window_fn = random.choice(WINDOW_FNS)
        self.late = random.random() < 0.4
        self.endless = random.random() < 0.6
        self.serial = 0
        self.behaviours: dict[str, Behaviour] = {}
        stages: list[StageSpec] = []
        roots = [f"root{number}" for number in range(random.randint(1, 2))]
        for root in roots:
            stages.append(self.draw_source(root))
        for _ in range(random.randint(1, 5)):
            stages.append(self.draw_stage(stages))
        graph = GraphSpec(tuple(stages), tuple(roots))
        limits = Limits(
            parallelism=random.randint(1, 4),
            bundles_per_stage=random.randint(1, 4),
            user_attempts=None,
            outside_attempts=None,
            backlog_bytes=random.choice((1, 50, 1 << 30)),
            joint_bytes=random.choice((1, 50, 1 << 30)),
            pauses=random.choice((Pauses(0, 0), Pauses(2, 12))),
            outage_pauses=Pauses(1, 5),
            outage_limit=None,
        )
        self.host = UpdatedHost(graph, self.behaviours, limits, self.late)
        self.roots = {root: self.draw_elements() for root in roots}

    # Parts of graphs.

    def draw_elements(self) -> list[Element]:
        times = [self.random.randint(0, 30) for _ in range(self.random.randint(0, 5))]
        windows = (frozenset(assign_windows(self.window_fn, time)) for time in times)
        return [self.host.element(*one) for one in zip(times, windows, strict=True)]

    def name_stage(self) -> str:
        self.serial += 1
        return f"stage{self.serial}"

    def draw_source(self, root: str) -> StageSpec:
        name = self.name_stage()
        self.behaviours[name] = Behaviour(
            unbounded=self.endless and self.random.random() < 0.7,
            delay=self.random.choice((0, 0, 5)),
            drain_keeps=self.random.choice((None, 0, 1)),
            lag=self.random.choice((0, 0, 4)),
            late=self.draw_lateness(),
        )
        return StageSpec(name, (root,), (f"{name}.0",), splittable=True)

    def draw_lateness(self) -> int:
        return self.random.choice((0, 15)) if self.late else 0

    def draw_stage(self, earlier: list[StageSpec], *inputs: str) -> StageSpec:
        """Draws a stage that reads collections of earlier stages."""
        random, name = self.random, self.name_stage()
        kind = random.choice((*StageKind, StageKind.ORDINARY))
        known = sorted({output for stage in earlier for output in stage.outputs})
        if not inputs:
            inputs = tuple(random.sample(known, min(len(known), random.choice((1, 1, 2)))))
        outputs = [f"{name}.{place}" for place in range(random.randint(0, 2))]
        keyed = kind is not StageKind.ORDINARY
        whole = random.random() < 0.1
        spec = StageSpec(
            name=name,
            inputs=inputs,
            outputs=tuple(outputs),
            kind=kind,
            side_inputs=(
                tuple(self.draw_side_input(random.choice(known)) for _ in range(1))
                if known and kind is not StageKind.GROUPING and random.random() < 0.4
                else ()
            ),
            splittable=not keyed and random.random() < 0.2,
            whole_input=whole,
            joint_shards=whole and keyed,
        )
        self.behaviours[name] = Behaviour(
            processing_timers=random.random() < 0.5,
            delay=random.choice((0, 5)),
            lateness=random.choice((0, 7)),
            drain_keeps=random.choice((None, 0, 1)),
            lag=random.choice((0, 4)),
            late=self.draw_lateness(),
            merges=not isinstance(self.window_fn, GlobalWindows) and random.random() < 0.5,
        )
        return spec

    def draw_side_input(self, collection: str) -> SideInputSpec:
        self.serial += 1
        return SideInputSpec(
            name=f"side{self.serial}",
            collection=collection,
            mapping=DefaultWindowMapping(self.window_fn),
            readiness=self.random.choice(tuple(SideInputReadiness)),
            retention=self.random.choice((0, ENDLESS)),
            replaces=self.random.random() < 0.2,
        )

    # Edits.

    def draw_edit(self) -> Edit | None:
        """Draws an edit of the host's graph, or returns None if the draw doesn't fit the graph."""
        edits: tuple[Callable[[], Edit | None], ...] = (
            self.keep_graph,
            self.reorder_stages,
            self.rename_stage,
            self.insert_stage,
            self.remove_stage,
            self.add_reader,
            self.remove_last_stage,
            self.add_source,
            self.add_side_input,
            self.remove_side_input,
        )
        edit = self.random.choice(edits)()
        if edit is None:
            return None
        try:
            compile_graph(edit.graph)
        except GraphError:
            return None
        behaviours = {stage.name: self.behaviours[stage.name] for stage in edit.graph.stages}
        return attrs.evolve(edit, behaviours=behaviours)

    @property
    def graph(self) -> GraphSpec:
        return self.host.graph

    def with_stages(self, *stages: StageSpec) -> GraphSpec:
        read = {name for stage in stages for name in stage.inputs}
        roots = tuple(root for root in self.graph.roots if root in read)
        return GraphSpec(stages, roots)

    def keep_graph(self) -> Edit:
        return Edit(self.graph)

    def reorder_stages(self) -> Edit:
        return Edit(
            self.with_stages(*self.random.sample(self.graph.stages, len(self.graph.stages)))
        )

    def rename_stage(self) -> Edit:
        """Renames a stage and the collections that only this stage writes."""
        stage = self.random.choice(self.graph.stages)
        others = {out for one in self.graph.stages if one is not stage for out in one.outputs}
        new = self.name_stage()
        self.behaviours[new] = self.behaviours[stage.name]
        names = {out: f"{new}.{out}" for out in stage.outputs if out not in others}
        renamed = [
            rename_collections(one, names, new if one is stage else one.name)
            for one in self.graph.stages
        ]
        return Edit(self.with_stages(*renamed), {stage.name: new}, names)

    def insert_stage(self) -> Edit:
        """Inserts a stage before another stage. A new reader of a root gets its data again."""
        reader = self.random.choice(self.graph.stages)
        through = self.random.choice(reader.inputs)
        new = self.draw_stage(list(self.graph.stages), through)
        new = attrs.evolve(new, outputs=(f"{new.name}.0",))
        changed = rename_inputs(reader, {through: new.outputs[0]})
        stages = (changed if one is reader else one for one in self.graph.stages)
        return Edit(self.with_stages(*stages, new), late=through in self.graph.roots)

    def remove_stage(self) -> Edit | None:
        """Removes a stage; its readers read the input of the stage."""
        stage = self.random.choice(self.graph.stages)
        rest = [one for one in self.graph.stages if one is not stage]
        gone = set(stage.outputs) - {out for one in rest for out in one.outputs}
        readers = [
            attrs.evolve(
                rename_inputs(one, dict.fromkeys(gone, stage.inputs[0])),
                side_inputs=tuple(side for side in one.side_inputs if side.collection not in gone),
            )
            for one in rest
        ]
        return (
            Edit(self.with_stages(*readers), dropped=self.random.random() < 0.3) if rest else None
        )

    def remove_last_stage(self) -> Edit | None:
        read = {name for stage in self.graph.stages for name in stage.inputs}
        read |= {side.collection for stage in self.graph.stages for side in stage.side_inputs}
        last = [stage for stage in self.graph.stages if read.isdisjoint(stage.outputs)]
        if not last or len(self.graph.stages) < 2:
            return None
        stage = self.random.choice(last)
        rest = (one for one in self.graph.stages if one is not stage)
        return Edit(self.with_stages(*rest), dropped=self.random.random() < 0.3)

    def add_reader(self) -> Edit | None:
        roots = tuple(name for name in self.graph.roots if self.random.random() < 0.2)
        new = self.draw_stage(list(self.graph.stages), *roots[:1])
        if not new.inputs:
            return None
        return Edit(self.with_stages(*self.graph.stages, new))

    def add_source(self) -> Edit:
        """Adds a source, whose data can also go to a collection that exists."""
        root = f"root{self.serial}"
        source = self.draw_source(root)
        known = sorted({out for stage in self.graph.stages for out in stage.outputs})
        late = bool(known) and self.random.random() < 0.5
        if late:
            source = attrs.evolve(source, outputs=(self.random.choice(known),))
        reader = self.draw_stage([source], *source.outputs)
        graph = attrs.evolve(
            self.with_stages(*self.graph.stages, source, reader), roots=(*self.graph.roots, root)
        )
        return Edit(graph, roots={root: self.draw_elements()}, late=late)

    def add_side_input(self) -> Edit | None:
        stage = self.random.choice(self.graph.stages)
        known = sorted({out for one in self.graph.stages for out in one.outputs})
        if stage.kind is StageKind.GROUPING or not known:
            return None
        sides = (*stage.side_inputs, self.draw_side_input(self.random.choice(known)))
        return self.change_stage(stage, attrs.evolve(stage, side_inputs=sides))

    def remove_side_input(self) -> Edit | None:
        having = [stage for stage in self.graph.stages if stage.side_inputs]
        if not having:
            return None
        stage = self.random.choice(having)
        return self.change_stage(stage, attrs.evolve(stage, side_inputs=stage.side_inputs[1:]))

    def change_stage(self, stage: StageSpec, changed: StageSpec) -> Edit:
        return Edit(
            self.with_stages(*(changed if one is stage else one for one in self.graph.stages))
        )


def rename_collections(stage: StageSpec, names: dict[str, str], name: str) -> StageSpec:
    return attrs.evolve(
        rename_inputs(stage, names),
        name=name,
        outputs=tuple(names.get(out, out) for out in stage.outputs),
        side_inputs=tuple(
            attrs.evolve(side, collection=names.get(side.collection, side.collection))
            for side in stage.side_inputs
        ),
    )


def rename_inputs(stage: StageSpec, names: dict[str, str]) -> StageSpec:
    return attrs.evolve(
        stage, inputs=tuple(dict.fromkeys(names.get(one, one) for one in stage.inputs))
    )
