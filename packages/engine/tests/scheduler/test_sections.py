"""Tests of sections (stages that run as one bundle): detection, opening, refusal and commit."""

from __future__ import annotations

import pickle

import attrs
import pytest
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.waits import WaitKind
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.scheduler.commands import (
    Bundle,
    FailJob,
    FinalizeBundles,
    FinishJob,
    Input,
    OpenBundles,
    ReleaseData,
    SectionStageInput,
)
from beam_runner_engine.scheduler.errors import GraphError, IllegalEvent
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Drain,
    FailureKind,
    Output,
    Progress,
    Residual,
    SectionRefused,
    Start,
    YieldRequested,
)
from beam_runner_engine.scheduler.graph import Section, compile_graph
from beam_runner_engine.scheduler.policy import DefaultSectionPolicy, SectionStatistics
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.sections import find_sections
from beam_runner_engine.scheduler.specs import (
    GraphSpec,
    Limits,
    SideInputSpec,
    StageKind,
    StageSpec,
)

from .samples import data, only, refs


def stage(name: str, reads: str, writes: str = "", side: str = "") -> StageSpec:
    """Returns a stage that can be in a section; a stage whose name starts with "group" is a
    grouping.
    """
    keyed = name.startswith("group")
    return StageSpec(
        name,
        tuple(reads.split()),
        tuple(writes.split()),
        kind=StageKind.GROUPING if keyed else StageKind.ORDINARY,
        side_inputs=tuple(SideInputSpec(one, one) for one in side.split()),
        whole_input=keyed,
        spans=True,
    )


def found(*stages: StageSpec, most: int = 8) -> list[list[str]]:
    """Returns the names of the stages of each section."""
    graph = compile_graph(GraphSpec(stages, ("root", "other")))
    sections = find_sections(graph, most)
    return [[graph.stages[number].name for number in section.stages] for section in sections]


READ, GROUP = stage("read", "root", "a"), stage("group", "a", "b")
COUNT = stage("count", "b", "c")


def test_chain_of_stages_forms_one_section() -> None:
    graph = compile_graph(GraphSpec((READ, GROUP, COUNT), ("root",)))
    assert find_sections(graph, 8) == (Section((0, 1, 2), (0,), ("a", "b"), ("c",)),)


def test_stages_of_joining_branches_are_one_section() -> None:
    left, right = stage("left", "root", "a"), stage("right", "other", "a")
    assert found(left, right, GROUP) == [["left", "right", "group"]]
    both = stage("group", "a b")
    assert found(left, stage("right", "other", "b"), both) == [["left", "right", "group"]]


@pytest.mark.parametrize(
    "stages",
    [
        (READ, GROUP, stage("twice", "a")),
        (READ, stage("look", "other", side="a"), GROUP),
        (READ, attrs.evolve(GROUP, spans=False)),
        (attrs.evolve(READ, spans=False), GROUP),
        (READ, stage("group", "a other")),
        (READ, StageSpec("split", ("a",), splittable=True, spans=True)),
    ],
    ids=["two readers", "side input", "reader", "writer", "a root beside it", "splittable"],
)
def test_stages_with_readers_outside_of_a_section_form_no_section(
    stages: tuple[StageSpec, ...],
) -> None:
    assert found(*stages) == []


def test_section_has_no_side_input_that_depends_on_its_own_output() -> None:
    fork = stage("fork", "root", "a x")
    apart = attrs.evolve(stage("apart", "x", "y"), spans=False)
    assert found(fork, apart, stage("end", "a", side="y")) == []
    assert found(fork, stage("end", "a", side="x")) == []
    first = (stage("f1", "root", "a s"), stage("f2", "other", "b t"))
    cross = (stage("end1", "a", side="t"), stage("end2", "b", side="s"))
    assert found(*first, *cross) == [["f1", "end1"]]


def test_section_has_at_most_the_maximum_number_of_shuffles() -> None:
    assert found(READ, GROUP, COUNT, most=1) == [["read", "group"]]


def test_section_with_parallel_branches_counts_their_shuffles_once() -> None:
    """Uses two collections that are created, rebalanced and then grouped together."""
    branches = [
        made
        for root, name in (("root", "one"), ("other", "two"))
        for made in (
            stage(name, root, f"{name}-a"),
            stage(f"{name}-dealt", f"{name}-a", f"{name}-b"),
            stage(f"{name}-read", f"{name}-b", name),
        )
    ]
    join = stage("group", "one two", "b")
    names = [one.name for one in (*branches, join)]
    assert found(*branches, join, most=3) == [names]
    assert found(*branches, join, most=2) == [names[:3], names[3:6]]


def test_keyed_stage_without_whole_input_raises_graph_error() -> None:
    odd = attrs.evolve(GROUP, whole_input=False)
    with pytest.raises(GraphError, match="'group' can't be in a section"):
        compile_graph(GraphSpec((READ, odd), ("root",)))


SPEC = GraphSpec((READ, GROUP, stage("write", "b")), ("root",))


def opened(**arguments: object) -> tuple[Scheduler, Bundle]:
    """Returns a scheduler and the bundle that opens at the start of the job."""
    scheduler = Scheduler(SPEC, Limits(user_attempts=2), **arguments)  # type: ignore[arg-type]
    commands = scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    (bundle,) = only(commands, OpenBundles).bundles
    return scheduler, bundle


def test_section_has_one_bundle_and_one_commit() -> None:
    scheduler, bundle = opened()
    assert (bundle.stage, bundle.inputs, bundle.end_watermark) == ("read", (), MAX_TIMESTAMP)
    assert [part.stage for part in bundle.parts] == ["read", "group", "write"]
    first, *others = bundle.parts
    assert refs(first) == ["d"]
    assert all(part.inputs == () for part in others)
    assert [scheduler.create_stage_report(part.stage).open_bundles for part in bundle.parts] == [
        1,
        1,
        1,
    ]
    commands = scheduler.handle_event(BundleDone(0, 1, finalize=True))
    assert only(commands, FinalizeBundles).bundles == (0,)
    assert only(commands, ReleaseData).data == (data("d"),)
    assert only(commands, FinishJob)


def test_section_outputs_are_delivered_to_readers() -> None:
    spec = GraphSpec((READ, GROUP, StageSpec("x", ("b",)), StageSpec("y", ("b",))), ("root",))
    scheduler = Scheduler(spec)
    scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    commands = scheduler.handle_event(BundleDone(0, 1, (Output("b", data("e")),)))
    bundles = [bundle for one in commands if isinstance(one, OpenBundles) for bundle in one.bundles]
    assert [(bundle.stage, refs(bundle)) for bundle in bundles] == [("x", ["e"]), ("y", ["e"])]


def test_refused_section_runs_as_separate_bundles() -> None:
    scheduler, _ = opened()
    commands = scheduler.handle_event(SectionRefused(0, 1, "a residual"))
    (bundle,) = only(commands, OpenBundles).bundles
    assert (bundle.number, bundle.parts, bundle.inputs) == (1, (), (Input(data("d")),))
    assert scheduler.handle_event(BundleDone(0, 1)) == ()
    commands = scheduler.handle_event(BundleDone(1, 1, (Output("a", data("e", shard=2)),)))
    (bundle,) = only(commands, OpenBundles).bundles
    assert (bundle.stage, bundle.shard, bundle.parts) == ("group", 2, ())
    assert only(scheduler.handle_event(BundleDone(2, 1, summary=EMPTY_SUMMARY)), FinishJob)


def test_section_policy_gets_the_facts_about_the_input() -> None:
    asked: list[SectionStatistics] = []

    @attrs.frozen
    class Noting:
        def should_open_section(self, section: SectionStatistics) -> bool:
            asked.append(section)
            return False

    _, bundle = opened(section_policy=Noting())
    assert (bundle.parts, bundle.inputs) == ((), (Input(data("d")),))
    assert asked == [SectionStatistics(("read", "group", "write"), 1, 10, None, 2, 4)]


@pytest.mark.parametrize(
    ("splittable", "told", "work"), [(True, 500, 500), (True, None, None), (False, None, 10)]
)
def test_section_work_size_is_that_of_the_restrictions_it_processes(
    splittable: bool, told: int | None, work: int | None
) -> None:
    asked: list[SectionStatistics] = []

    class Noting:
        def should_open_section(self, section: SectionStatistics) -> bool:
            asked.append(section)
            return True

    pairs = attrs.evolve(stage("pairs", "root", "p"), spans=False)
    process = attrs.evolve(stage("process", "p", "a"), splittable=splittable)
    scheduler = Scheduler(GraphSpec((pairs, process, GROUP), ("root",)), section_policy=Noting())
    scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    made = data("e")
    made = attrs.evolve(made, facts=attrs.evolve(made.facts, work=told))
    scheduler.handle_event(BundleDone(0, 1, (Output("p", made),)))
    assert [one.work for one in asked] == [work]


FACTS = st.builds(
    SectionStatistics,
    stages=st.just(("read", "group")),
    count=st.integers(1, 100),
    size=st.integers(0, 100),
    work=st.none() | st.integers(0, 100),
    exchanges=st.integers(1, 4),
    parallelism=st.integers(1, 64),
)


@given(section=FACTS, more=FACTS, least=st.integers(0, 100), growing=st.booleans())
def test_default_section_policy_also_opens_sections_with_more_work_or_input(
    section: SectionStatistics, more: SectionStatistics, least: int, growing: bool
) -> None:
    policy = DefaultSectionPolicy(least, growing)
    larger = attrs.evolve(section, size=section.size + more.size)
    busier = attrs.evolve(section, work=(section.work or 0) + (more.work or 0))
    assert policy.should_open_section(larger) >= policy.should_open_section(section)
    assert section.work is None or policy.should_open_section(busier) >= policy.should_open_section(
        section
    )
    assert DefaultSectionPolicy(least, growing=True).should_open_section(
        section
    ) >= policy.should_open_section(section)
    assert DefaultSectionPolicy().should_open_section(section)


@pytest.mark.parametrize(
    ("policy", "whole"),
    [
        (DefaultSectionPolicy(10), True),
        (DefaultSectionPolicy(11), False),
        (DefaultSectionPolicy(11, growing=True), True),
    ],
)
def test_section_with_a_root_as_input_has_an_unknown_work_size(
    policy: DefaultSectionPolicy, whole: bool
) -> None:
    assert bool(opened(section_policy=policy)[1].parts) is whole


def test_error_in_section_policy_fails_the_job() -> None:
    class Broken:
        def should_open_section(self, section: SectionStatistics) -> bool:
            raise RuntimeError("no idea")

    scheduler = Scheduler(SPEC, section_policy=Broken())
    commands = scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    assert "the policy for a section" in only(commands, FailJob).reason


def test_section_opens_with_the_side_inputs_of_all_stages() -> None:
    side = StageSpec("side", ("other",), ("s",))
    graph = GraphSpec((READ, side, stage("write", "a", side="s")), ("root", "other"))
    scheduler = Scheduler(graph)
    roots = (Output("root", data("d")), Output("other", data("o")))
    (alone,) = only(scheduler.handle_event(Start(roots=roots)), OpenBundles).bundles
    assert alone.stage == "side"
    givers = {
        w.givers for w in scheduler.list_wait_reasons() if w.kind is WaitKind.END_OF_SECTION_INPUT
    }
    assert givers == {("read", "write")}
    commands = scheduler.handle_event(BundleDone(0, 1, (Output("s", data("s")),)))
    (bundle,) = only(commands, OpenBundles).bundles
    read, write = bundle.parts
    assert (read.side_inputs, write.inputs) == ((), ())
    assert [one.data for one in write.side_inputs] == [(data("s"),)]
    released = only(scheduler.handle_event(BundleDone(1, 1)), ReleaseData)
    assert {one.ref for one in released.data} == {"d", "s"}


def test_failing_section_is_retried_and_named_by_its_stages() -> None:
    scheduler, bundle = opened()
    lost = BundleFailed(0, 1, "Spark mixed two versions", FailureKind.OUTSIDE)
    (again,) = only(scheduler.handle_event(lost), OpenBundles).bundles
    assert again == attrs.evolve(bundle, attempt=2)
    scheduler.handle_event(BundleFailed(0, 2, "ValueError: one"))
    failed = only(scheduler.handle_event(BundleFailed(0, 3, "ValueError: two")), FailJob)
    assert failed.reason == (
        "the section of stages 'read' to 'write' failed after 3 attempts (user code):"
        " ValueError: two"
    )


def test_section_is_not_split_or_truncated() -> None:
    scheduler, _ = opened()
    assert scheduler.handle_event(Progress(0, 1, 0.0, 60_000)) == ()
    assert scheduler.handle_event(YieldRequested(0, 1)) == ()
    assert scheduler.handle_event(Drain()) == ()
    assert only(scheduler.handle_event(BundleDone(0, 1)), FinishJob).outcome.value == "drained"


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (BundleDone(0, 1, residuals=(Residual(data("d")),)), "a section can't have residuals"),
        (BundleDone(0, 1, summary=EMPTY_SUMMARY), "can't have a shard summary"),
        (BundleDone(0, 1, (Output("a", data("e")),)), "'a' is not an output of the section"),
    ],
)
def test_section_with_residuals_or_summary_raises_illegal_event(
    event: BundleDone, why: str
) -> None:
    scheduler, _ = opened()
    before = pickle.dumps(scheduler)
    with pytest.raises(IllegalEvent, match=why):
        scheduler.handle_event(event)
    assert pickle.dumps(scheduler) == before


def test_refusal_of_a_bundle_outside_of_sections_raises_illegal_event() -> None:
    scheduler, _ = opened(section_policy=DefaultSectionPolicy(1 << 40))
    with pytest.raises(IllegalEvent, match="not the bundle of a section"):
        scheduler.handle_event(SectionRefused(0, 1, "it is none"))


def test_restored_scheduler_continues_a_section() -> None:
    scheduler, bundle = opened()
    again = pickle.loads(pickle.dumps(scheduler))
    assert again.open_bundles == (bundle,)
    assert isinstance(bundle.parts[0], SectionStageInput)
    assert again.handle_event(BundleDone(0, 1)) == scheduler.handle_event(BundleDone(0, 1))
