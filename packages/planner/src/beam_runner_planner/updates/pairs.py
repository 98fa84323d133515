"""Pairs of an old and a new stage that an update compares, with the old stage's data and the user's
permissions to delete it.
"""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingSubject,
    FindingVerdict,
    StoredStageData,
)

from beam_runner_planner.updates.coders import CoderTree, compare_coders
from beam_runner_planner.updates.consents import UpdatePermissions
from beam_runner_planner.updates.views import StageView


@attrs.frozen
class StagePair:
    """A stage of the running pipeline, and the stage of the new pipeline that continues it.

    Attributes:
        old: the old stage.
        new: the new stage.
        contents: the data of the old stage.
        consents: the permissions of the user to drop data or to trust coders.
    """

    old: StageView
    new: StageView
    contents: StoredStageData
    consents: UpdatePermissions

    @property
    def steps(self) -> tuple[str, str]:
        """The names of the step in the old and the new pipeline."""
        return self.old.step, self.new.step

    @property
    def passes(self) -> bool:
        """Whether the data of the old stage disappears when the stage has processed all waiting
        elements.

        The residuals of a source don't disappear, because they resume again and again.
        """
        return not self.contents.has_state and not self.old.plan.splittable

    def create_kept_finding(
        self, reason: FindingReason, subject: FindingSubject = FindingSubject.STEP, **values: Any
    ) -> Finding:
        """Returns the finding that the new stage continues with the data of the old stage unchanged."""
        return Finding(FindingVerdict.KEPT, reason, subject, step=self.new.step, **values)

    def create_change_finding(
        self,
        reason: FindingReason,
        subject: FindingSubject = FindingSubject.STEP,
        *,
        has_data: bool,
        trusted: bool = False,
        **values: Any,
    ) -> Finding:
        """Returns a finding about a change that makes the data of the old stage unusable.

        Args:
            reason: the change.
            subject: the kind of part that changed.
            has_data: whether the old stage has data that the change concerns.
            trusted: whether the user permits to keep the data.
            **values: the other fields of the finding.
        """
        if not has_data or trusted:
            return self.create_kept_finding(reason, subject, agreed=has_data and trusted, **values)
        return Finding(
            FindingVerdict.REFUSED,
            reason,
            subject,
            step=self.new.step,
            elements=self.contents.elements,
            state_bytes=self.contents.state_bytes,
            passes=self.passes,
            **values,
        )

    def compare_part_coders(
        self,
        old: CoderTree,
        new: CoderTree,
        *,
        has_data: bool,
        reason: FindingReason = FindingReason.CODER,
        subject: FindingSubject = FindingSubject.STEP,
        part: str = "",
    ) -> list[Finding]:
        """Returns the finding about two coders; empty if the coders are equal.

        Keys must have equal coders. Other data can have additional nullable fields in rows.
        """
        change = compare_coders(old, new)
        if change is None:
            return []
        if change.is_readable and reason is FindingReason.CODER:
            return [
                self.create_kept_finding(
                    FindingReason.FIELDS_ADDED, subject, part=part, after=change.after
                )
            ]
        trusted = self.consents.are_coders_trusted(self.steps, part)
        return [
            self.create_change_finding(
                reason,
                subject,
                has_data=has_data,
                trusted=trusted,
                part=part,
                before=change.before,
                after=change.after,
            )
        ]
