from __future__ import annotations

import attrs
import pytest
from beam_runner_model.jobs import Importance, JobMetrics, JobState, MetricCell
from beam_runner_planner.file_steps import FileStep
from beam_runner_urns import metrics as urns
from servers import Reporter

from beam_runner_server.empty_reads import EmptyReadsReporter, describe_empty_reads

READ = FileStep("R/Read", "in/*.txt", False, frozenset({"source"}), frozenset({"lines"}))


def counted(**elements: int) -> JobMetrics:
    """Returns metrics with these element counts of PCollections, each below 128."""
    return JobMetrics(
        committed=tuple(
            MetricCell(
                urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, bytes([n]), {urns.LABEL_PCOLLECTION: name}
            )
            for name, n in elements.items()
        )
    )


@pytest.mark.parametrize("metrics", [counted(source=1), counted(source=1, lines=0)])
def test_warning_about_empty_read_names_pattern_and_folder(metrics: JobMetrics) -> None:
    (text,) = describe_empty_reads([READ], metrics, "/home/me")

    assert text.startswith("The step 'R/Read' read nothing: 'in/*.txt' matches no files")
    assert "/home/me" in text


@pytest.mark.parametrize(
    "read",
    [
        attrs.evolve(READ, pattern="/in/*"),
        attrs.evolve(READ, pattern="s3://b/in"),
        attrs.evolve(READ, elsewhere=True),
    ],
)
def test_warning_about_empty_read_outside_server_folders_names_no_folder(read: FileStep) -> None:
    (text,) = describe_empty_reads([read], counted(source=1), "/home/me")

    assert read.pattern in text
    assert "/home/me" not in text


def test_warning_about_empty_match_names_step() -> None:
    assert describe_empty_reads([attrs.evolve(READ, pattern="")], counted(source=1), "/") == [
        "The step 'R/Read' matched no files, or only empty files"
    ]


@pytest.mark.parametrize("metrics", [counted(source=1, lines=2), counted(lines=0), counted()])
def test_read_with_elements_or_without_input_gets_no_warning(metrics: JobMetrics) -> None:
    assert describe_empty_reads([READ], metrics, "/home/me") == []


@pytest.mark.parametrize("state", JobState)
def test_warning_about_empty_read_precedes_only_state_done(state: JobState) -> None:
    reporter = Reporter()
    EmptyReadsReporter(reporter, [READ], lambda: counted(source=1), "/").report_state(
        state, "reason"
    )

    assert reporter.states == [(state, "reason")]
    assert [importance for importance, _, _ in reporter.messages] == (
        [Importance.WARNING] if state is JobState.DONE else []
    )
