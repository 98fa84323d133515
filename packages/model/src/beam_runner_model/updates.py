"""Records of updates: the findings of a comparison of two plans, the user's consent, and the
correspondence of the plans' parts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeAlias

import attrs


class FindingVerdict(enum.StrEnum):
    """Effect of an update on a part of a running job."""

    KEPT = "kept"
    """The new pipeline continues with the data of the part."""
    NEW = "new"
    """The part begins empty."""
    DROPPED = "dropped"
    """The update deletes the data of the part."""
    REFUSED = "refused"
    """The update can't happen. The old job continues unchanged."""

    @classmethod
    def _missing_(cls, value: object) -> FindingVerdict:
        return cls.REFUSED


class FindingSubject(enum.StrEnum):
    """Kind of part that a finding concerns."""

    JOB = "job"
    STEP = "step"
    """A step that has data in the running job, because the step groups, keeps state, redistributes,
    or reads stored data.
    """
    SOURCE = "source"
    """A step that begins with an impulse, such as a ``Create``."""
    STATE = "state"
    TIMER = "timer"
    SIDE_INPUT = "side_input"
    MAPPING = "mapping"
    """An entry of ``--transform_name_mapping``."""
    CONSENT = "consent"
    """A name in ``--beam_spark_update_drop`` or ``--beam_spark_update_trust``."""
    OTHER = "other"
    """A kind that this version doesn't know."""

    @classmethod
    def _missing_(cls, value: object) -> FindingSubject:
        return cls.OTHER


class FindingReason(enum.StrEnum):
    """Reason of a finding. The verdict says what follows: a changed windowing, for example, is
    ``KEPT`` if no window is open, and ``REFUSED`` otherwise.
    """

    SAME = "same"
    """The part is unchanged."""
    RENAMED = "renamed"
    """The part had the name `before`."""
    CODE_CHANGED = "code_changed"
    """The serialized user code differs. For a `SOURCE`, the elements can differ."""
    ADDED = "added"
    """The old pipeline has no such part."""
    RAN_BEFORE = "ran_before"
    """The old pipeline has no such source, but an earlier job that led to the running job by
    updates ran the source. The rollback would start the source again.
    """
    REMOVED = "removed"
    """The new pipeline has no such part. A step `after` has the same declarations, if not empty."""
    INPUT_ENDED = "input_ended"
    """The part is new, and reads a collection whose elements were all read and deleted."""
    INPUT_STARTED = "input_started"
    """The part is new, and reads a collection whose earlier elements were deleted."""
    HAS_ENDED = "has_ended"
    """The step has processed its complete input, but the new pipeline gives the step more input."""
    KIND = "kind"
    """The kind of a step or state, or the time domain of a timer, changed from `before` to
    `after`.
    """
    CODER = "coder"
    """The encoding of elements, values or a state changed from `before` to `after`."""
    KEY_CODER = "key_coder"
    """The encoding of keys changed from `before` to `after`."""
    FIELDS_ADDED = "fields_added"
    """Rows have the additional nullable fields `after` at the end."""
    WINDOW_SIZE = "window_size"
    """Size, period, gap or offset of the windows changed from `before` to `after`."""
    WINDOW_KIND = "window_kind"
    """The kind of windows changed from `before` to `after`."""
    TRIGGER = "trigger"
    ACCUMULATION = "accumulation"
    """The accumulation mode changed from `before` to `after`."""
    LATENESS = "lateness"
    """The allowed lateness (ms) changed from `before` to `after`."""
    PANES = "panes"
    """The timestamp combiner, closing behavior or on-time behavior changed."""
    LIFTING = "lifting"
    """Groups contain accumulators in one pipeline, and values in the other."""
    TIME_SORTED = "time_sorted"
    """Whether the step sorts its input by time changed."""
    UNKNOWN_OLD_NAME = "unknown_old_name"
    """A mapping names the step `before`, which the running pipeline doesn't have."""
    UNKNOWN_NEW_NAME = "unknown_new_name"
    """A mapping names the step `after`, which the new pipeline doesn't have."""
    TWO_OLD_NAMES = "two_old_names"
    """The steps `step` and `before` of the running pipeline correspond to one new step `after`."""
    UNKNOWN_NAME = "unknown_name"
    """The user permits a change by a name that neither pipeline has."""
    JOB_UNKNOWN = "job_unknown"
    JOB_NOT_RUNNING = "job_not_running"
    JOB_DRAINING = "job_draining"
    JOB_BOUNDED = "job_bounded"
    JOB_SCRIPTED = "job_scripted"
    """A pipeline has a TestStream."""
    JOB_WITHOUT_IDENTITIES = "job_without_identities"
    """A version without updates started the running job."""
    KEY_SHARDS = "key_shards"
    """The options change the number of key shards from `before` to `after`."""
    OTHER = "other"
    """A reason that this version doesn't know."""

    @classmethod
    def _missing_(cls, value: object) -> FindingReason:
        return cls.OTHER


@attrs.frozen
class Finding:
    """Result of the comparison of one part of two pipelines.

    Attributes:
        verdict: the effect of the update on the part.
        reason: the reason of the verdict, which determines the meaning of `before` and `after`.
        subject: the kind of part.
        step: the full name of the step, in the new pipeline if it has the step. For a mapping, the
            old name; for a consent, the name in the option.
        part: the name of the state, timer family or side input; otherwise empty.
        before: the value in the running pipeline.
        after: the value in the new pipeline.
        elements: the number of elements that wait in the part.
        state_bytes: the size of the part's state in bytes.
        agreed: whether an option of the user permits the verdict.
        passes: whether the update is refused only because elements wait now. The finding disappears
            when the step has processed them.
    """

    verdict: FindingVerdict = attrs.field(converter=FindingVerdict)
    reason: FindingReason = attrs.field(converter=FindingReason)
    subject: FindingSubject = attrs.field(default=FindingSubject.STEP, converter=FindingSubject)
    step: str = ""
    part: str = ""
    before: str = ""
    after: str = ""
    elements: int = 0
    state_bytes: int = 0
    agreed: bool = False
    passes: bool = False


@attrs.frozen
class UpdateReport:
    """Findings of an update, in the order of the new pipeline's stages."""

    findings: tuple[Finding, ...] = ()

    @property
    def kept_findings(self) -> tuple[Finding, ...]:
        """Findings about data with which the new pipeline continues."""
        return self._select_findings(FindingVerdict.KEPT)

    @property
    def new_findings(self) -> tuple[Finding, ...]:
        """Findings about parts that begin empty."""
        return self._select_findings(FindingVerdict.NEW)

    @property
    def dropped_findings(self) -> tuple[Finding, ...]:
        """Findings about data that the update deletes."""
        return self._select_findings(FindingVerdict.DROPPED)

    @property
    def refused_findings(self) -> tuple[Finding, ...]:
        """Findings that prevent the update."""
        return self._select_findings(FindingVerdict.REFUSED)

    @property
    def ordered_findings(self) -> tuple[Finding, ...]:
        """All findings, the refusals first, then drops, new parts and kept parts."""
        return (
            *self.refused_findings,
            *self.dropped_findings,
            *self.new_findings,
            *self.kept_findings,
        )

    @property
    def is_refused(self) -> bool:
        """Whether some finding prevents the update."""
        return bool(self.refused_findings)

    @property
    def is_refused_permanently(self) -> bool:
        """Whether some finding prevents the update even if no elements wait."""
        return any(not finding.passes for finding in self.refused_findings)

    def _select_findings(self, verdict: FindingVerdict) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict is verdict)


@attrs.frozen
class UpdateInstructions:
    """Options of an update: renamed steps, and the data that the user permits to drop or considers to
    be compatible.

    Attributes:
        mapping: prefixes of step names in the running pipeline, and their names in the new
            pipeline. An empty new name permits the update to drop the data of the steps.
        drop: the steps, states, timers and side inputs whose data the update may drop; "all" means
            everything.
        trust: the steps and states whose coders the user considers to be compatible.
        is_rollback: whether the new pipeline is the pipeline of the job before the running job, so
            that its sources ran before.
    """

    mapping: Mapping[str, str] = attrs.field(factory=dict)
    drop: frozenset[str] = frozenset()
    trust: frozenset[str] = frozenset()
    is_rollback: bool = False


@attrs.frozen
class StoredStageData:
    """Data that a stage of a running job has.

    Attributes:
        elements: the number of elements that wait, including residuals, delayed work and the input
            of open bundles.
        state_bytes: the size of the state of all key shards in bytes.
        wakes: the number of key shards with a pending timer, trigger, expiry or watermark hold.
        complete: whether the stage has processed its whole input.
    """

    elements: int = 0
    state_bytes: int = 0
    wakes: int = 0
    complete: bool = False

    @property
    def has_state(self) -> bool:
        """Whether the stage has state, timers or open windows."""
        return bool(self.state_bytes or self.wakes)

    @property
    def is_empty(self) -> bool:
        """Whether the stage has neither state nor waiting elements."""
        return not (self.elements or self.has_state)


JobContents: TypeAlias = Mapping[str, StoredStageData]
"""Data of a running job, by the stage ids of its plan. A stage that is not in the mapping has no data."""


@attrs.frozen
class PlanCorrespondence:
    """Parts of a new plan that continue parts of an old plan. Stages and collections are named by
    identity.

    Attributes:
        stages: the new stage, by the old stage.
        collections: the new collection, by the old collection.
        side_inputs: the new stage and the name of its side input, by the old stage and the name of
            its side input.
        dropped_stages: the old stages that no new stage continues, and whose data the user permits to
            drop.
        dropped_states: by new stage, the states of the old stage that the new stage doesn't declare
            any more.
        dropped_timers: by new stage, the timer families of the old stage that the new stage doesn't
            declare any more.
    """

    stages: Mapping[str, str] = attrs.field(factory=dict)
    collections: Mapping[str, str] = attrs.field(factory=dict)
    side_inputs: Mapping[tuple[str, str], tuple[str, str]] = attrs.field(factory=dict)
    dropped_stages: frozenset[str] = frozenset()
    dropped_states: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    dropped_timers: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
