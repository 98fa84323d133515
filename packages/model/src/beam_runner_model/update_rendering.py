"""Text of the findings of an update, the same in messages, in commands and on web pages."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingSubject,
    FindingVerdict,
    UpdateReport,
)

_DROP = "--beam_spark_update_drop"
_TRUST = "--beam_spark_update_trust"
_MAPPING = "--transform_name_mapping"
_KEY_SHARDS = "--beam_spark_key_shards"
_JOB: dict[FindingReason, str] = {
    FindingReason.JOB_UNKNOWN: "no job with this name or ID is running",
    FindingReason.JOB_NOT_RUNNING: "the job isn't running",
    FindingReason.JOB_DRAINING: "the job is draining",
    FindingReason.JOB_BOUNDED: "an update needs an unbounded source in both pipelines",
    FindingReason.JOB_SCRIPTED: "a pipeline with a TestStream can't be updated",
    FindingReason.JOB_WITHOUT_IDENTITIES: (
        "a version of the runner without updates started the job: drain the job, and start the new"
        " pipeline"
    ),
}
_CHANGES: dict[FindingReason, str] = {
    FindingReason.CODER: "encoding",
    FindingReason.KEY_CODER: "encoding of keys",
    FindingReason.WINDOW_KIND: "kind of windows",
    FindingReason.WINDOW_SIZE: "windows",
    FindingReason.TRIGGER: "trigger",
    FindingReason.ACCUMULATION: "accumulation mode",
    FindingReason.LATENESS: "allowed lateness",
    FindingReason.PANES: "timestamp combiner or closing behavior",
    FindingReason.KIND: "kind",
}


def render_update_report(report: UpdateReport) -> Iterator[str]:
    """Yields a line for each finding, refusals first: the verdict and the sentence."""
    for finding in report.ordered_findings:
        yield f"{finding.verdict.value}: {render_finding(finding)}"


def render_finding(finding: Finding) -> str:
    """Returns the text of a finding: one or two sentences without the final period."""
    match finding.subject:
        case FindingSubject.JOB:
            return _render_job_finding(finding)
        case FindingSubject.MAPPING:
            return _render_mapping_finding(finding)
        case FindingSubject.CONSENT:
            return f"neither pipeline has a step or state with the name {finding.step!r}"
        case _:
            return _render_part_finding(finding)


def _render_job_finding(finding: Finding) -> str:
    if finding.reason is FindingReason.KEY_SHARDS:
        if finding.verdict is FindingVerdict.KEPT:
            return f"the stream has {finding.after} key shards in place of {finding.before}"
        return _render_key_shards(finding)
    return _JOB.get(finding.reason, "this version doesn't know the reason")


def _render_key_shards(finding: Finding) -> str:
    """Returns the text of a refused number of key shards."""
    text = (
        f"{_KEY_SHARDS}={finding.after} isn't possible, because the stream has {finding.before} key"
        " shards, and their number can only grow by a multiple"
    )
    if not finding.before.isdecimal():
        return text
    few = int(finding.before)
    return f"{text}: set {2 * few}, {3 * few} or {4 * few}, for example, or leave the option out"


def _render_mapping_finding(finding: Finding) -> str:
    entry = f"the entry {json.dumps({finding.step: finding.after})} of {_MAPPING}"
    match finding.reason:
        case FindingReason.UNKNOWN_OLD_NAME:
            return f"{entry} names {finding.before!r}, which the running pipeline doesn't have"
        case FindingReason.UNKNOWN_NEW_NAME:
            return f"{entry} leads to no step of the new pipeline"
        case _:
            return (
                f"{entry} gives {finding.step!r} the same new name as {finding.before!r}: map both,"
                " to different names"
            )


def _render_part_finding(finding: Finding) -> str:
    who = _describe_finding_part(finding)
    match finding.verdict:
        case FindingVerdict.KEPT:
            return f"{who} {_render_kept_part_finding(finding)}"
        case FindingVerdict.NEW:
            return f"{who} {_render_new_part_finding(finding)}"
        case FindingVerdict.DROPPED:
            return f"{who} {_render_dropped_part_finding(finding)}"
        case FindingVerdict.REFUSED:
            passes = "; the update can continue when no elements wait" if finding.passes else ""
            return f"{who} {_render_refused_part_finding(finding)}{passes}"


def _describe_finding_part(finding: Finding) -> str:
    kinds = {
        FindingSubject.STATE: "state",
        FindingSubject.TIMER: "timer",
        FindingSubject.SIDE_INPUT: "side input",
    }
    kind = kinds.get(finding.subject)
    return f"{finding.step!r}" if kind is None else f"{kind} {finding.part!r} of {finding.step!r}"


def _render_kept_part_finding(finding: Finding) -> str:
    change = _describe_finding_change(finding)
    match finding.reason:
        case FindingReason.SAME:
            return "continues"
        case FindingReason.RENAMED:
            return f"continues {finding.before!r}"
        case FindingReason.CODE_CHANGED if finding.subject is FindingSubject.SOURCE:
            return (
                "doesn't run again, so changed elements and changed code have no effect in:"
                f" {finding.after}; to run the step again, give it another name"
            )
        case FindingReason.CODE_CHANGED:
            return (
                "continues with other code, and the runner can't check that it reads the old data"
            )
        case FindingReason.FIELDS_ADDED:
            return f"continues, and its old rows have no values for the new fields {finding.after}"
        case FindingReason.WINDOW_SIZE:
            return f"continues, and open windows end as they began: {change}"
        case _ if finding.agreed:
            return f"continues, because {_TRUST} names it: {change}"
        case _:
            return f"continues, and has no data that the change concerns: {change}"


def _render_new_part_finding(finding: Finding) -> str:
    match finding.reason:
        case FindingReason.INPUT_ENDED:
            return "is new, and gets no elements: its input has ended"
        case FindingReason.RAN_BEFORE:
            return "starts again from its beginning, as the options permit"
        case FindingReason.INPUT_STARTED:
            return f"is new, and doesn't see earlier elements of {finding.after!r}"
        case _:
            return (
                "is new" if finding.subject is FindingSubject.SOURCE else "is new, and begins empty"
            )


def _render_dropped_part_finding(finding: Finding) -> str:
    if finding.subject is FindingSubject.SIDE_INPUT:
        return f"isn't in the new pipeline; it reads {finding.before!r}"
    if not finding.agreed:
        return "has no data, and no part of the new pipeline continues it"
    if finding.reason is FindingReason.REMOVED:
        return f"loses its data, as the options permit ({_describe_data(finding)})"
    return f"begins empty, as the options permit: {_describe_finding_change(finding)}"


def _render_refused_part_finding(finding: Finding) -> str:
    name = f"{finding.step}/{finding.part}" if finding.part else finding.step
    drop = f"{_DROP}={shlex.quote(name)}"
    data = _describe_data(finding)
    match finding.reason:
        case FindingReason.REMOVED:
            renamed = ""
            if finding.after:
                entry = shlex.quote(json.dumps({finding.step: finding.after}))
                renamed = f"if the step has another name now, set {_MAPPING}={entry}; "
            return (
                "has data that no part of the new pipeline continues"
                f" ({data}): {renamed}to drop the data, set {drop}"
            )
        case FindingReason.LIFTING:
            return f"can't continue ({data}): {_describe_finding_change(finding)}; to drop the data, set {drop}"
        case FindingReason.INPUT_ENDED:
            return (
                f"is new, and would be empty: {finding.after!r} has ended; to read its elements,"
                " give its source another name, so that it runs again"
            )
        case FindingReason.INPUT_STARTED:
            return (
                f"is new, and wouldn't see earlier elements of {finding.after!r}; to accept this,"
                f" set {drop}"
            )
        case FindingReason.RAN_BEFORE:
            return (
                "ran before the update, which dropped its position: a rollback would start it again,"
                f" so that its elements count twice; to permit this, set {drop}"
            )
        case FindingReason.HAS_ENDED:
            return "has ended, and the new pipeline gives it more input: give the step another name"
        case FindingReason.CODER | FindingReason.KEY_CODER:
            return (
                f"can't continue ({data}): {_describe_finding_change(finding)}; if both encodings are"
                f" compatible, set {_TRUST}={shlex.quote(name)}"
            )
        case _:
            return (
                f"can't continue ({data}): {_describe_finding_change(finding)}; give the step another name,"
                " or drain the job"
            )


def _describe_finding_change(finding: Finding) -> str:
    match finding.reason:
        case FindingReason.LIFTING:
            return "one pipeline combines values before it groups them, and the other doesn't"
        case FindingReason.TIME_SORTED:
            return "one pipeline sorts the input of the step by time, and the other doesn't"
        case _:
            change = _CHANGES.get(finding.reason, "declaration")
            return f"the {change} changed from {finding.before} to {finding.after}"


def _describe_data(finding: Finding) -> str:
    """Returns a text with the size of a step's data. The runner doesn't measure the size of a single state."""
    parts = []
    if finding.state_bytes:
        parts.append(f"the step has {finding.state_bytes:,} bytes of state")
    if finding.elements:
        parts.append(f"waiting elements: {finding.elements:,}")
    return ", ".join(parts) or "the step has timers or open windows"
