"""Tests of the job log as records: queries filter lines, and pages cover all lines."""

from __future__ import annotations

import attrs
from beam_runner_model.jobs import Importance, JobMessage
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_jobservices.job_log import MOST_LINES, JobLogLine, LogQuery, select_logs

STEPS = ("", "Read", "Read/Lines", "Reading", "Count")


def message(number, transform="", text="text", importance=Importance.BASIC, worker=""):
    whole = f"[{transform}] {text}" if transform else text
    time = "1970-01-01T00:00:02.500+00:00"
    return JobMessage(str(number), time, importance, whole, transform, worker)


def ids(found):
    return [line.id for line in found.lines]


def test_job_log_line_has_time_severity_step_worker_and_text():
    sent = message(7, "Read/Lines", "careful", Importance.WARNING, "host:12")
    (line,) = select_logs([sent], LogQuery()).lines
    assert line == JobLogLine(7, 2.5, "WARNING", "Read/Lines", "host:12", "careful")


def test_job_log_of_composite_includes_lines_of_its_parts():
    log = [message(number, step) for number, step in enumerate(STEPS, 1)]
    assert ids(select_logs(log, LogQuery(step="Read"))) == [2, 3]
    assert ids(select_logs(log, LogQuery(step="Read/Lines"))) == [3]
    found = select_logs(log, LogQuery(step="Count"))
    assert (ids(found), found.found) == ([5], 1)
    assert found.steps == ("Count", "Reading", "Read/Lines", "Read")


def test_job_log_search_matches_severity_and_text_but_not_step_name():
    log = [
        message(1, "Read", "One Line"),
        message(2, "Count", "another", Importance.WARNING),
        message(3, "", "no line at all", Importance.ERROR),
    ]
    assert ids(select_logs(log, LogQuery(severity="WARNING"))) == [2, 3]
    assert ids(select_logs(log, LogQuery(text="LINE"))) == [1, 3]
    assert ids(select_logs(log, LogQuery(text="count"))) == []
    assert ids(select_logs(log, LogQuery(text="line", severity="ERROR", before=3))) == []


def test_job_log_line_above_client_limit_is_truncated():
    log = [message(1, text="x" * 1_000_000), message(2, text="short")]
    found = select_logs(log, LogQuery(characters=10))
    assert (ids(found), found.found) == ([2], 2)
    (line,) = select_logs(log, LogQuery(before=2, characters=10)).lines
    assert 0 < len(line.text) < 300_000 and "omitted" in line.text


LOGS = st.lists(
    st.builds(
        message,
        st.just(0),
        st.sampled_from(STEPS),
        st.sampled_from(("a", "B", "ab" * 20)),
        st.sampled_from((Importance.BASIC, Importance.ERROR)),
    ),
    max_size=30,
)


@given(LOGS, st.integers(1, 40), st.integers(1, 60), st.sampled_from(STEPS), st.sampled_from("ab"))
def test_job_log_pages_read_backwards_contain_each_line_once(log, most, characters, step, text):
    log = [attrs.evolve(one, message_id=str(number)) for number, one in enumerate(log, 1)]
    whole = LogQuery(step=step, text=text)
    expected = ids(select_logs(log, whole))
    query = attrs.evolve(whole, most=most, characters=characters)
    seen = []
    while part := select_logs(log, query).lines:
        seen = [*part, *seen]
        query = attrs.evolve(query, before=part[0].id)
    assert [one.id for one in seen] == expected


def test_job_log_response_never_exceeds_client_limit():
    log = [message(number) for number in range(1, 2 * MOST_LINES)]
    found = select_logs(log, LogQuery(most=10**9))
    assert (len(found.lines), found.found) == (MOST_LINES, len(log))
