"""Names of steps in two pipelines: which step of the new pipeline continues a step of the old one.

Three rules find the new name, the first that applies:

1. An entry of ``--transform_name_mapping`` whose old name is the step or a composite around it.
2. Beam's default labels of lambdas contain a line number, which changes with every line above. Such
   a step corresponds to the only step with the same label at another line. Several steps with
   the same label correspond only if no line number changed.
3. Other steps have the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import attrs
from beam_runner_model.texts import is_step_or_in_composite
from beam_runner_model.updates import Finding, FindingReason, FindingSubject, FindingVerdict

_LINE = re.compile(r"(<lambda at [^<>]*?):\d+>")


class StepMatch:
    """Correspondence of the full names of steps in two pipelines.

    Args:
        old: the steps of the running pipeline.
        new: the steps of the new pipeline.
        mapping: prefixes of old names, and the prefixes of the new names.
    """

    def __init__(
        self, old: Collection[str], new: Collection[str], mapping: Mapping[str, str]
    ) -> None:
        self._old = old
        self._mapping = mapping
        self._pairs: dict[str, str] = {}
        mapped = {
            step: entry for step in old if (entry := self._find_mapping_entry(step)) is not None
        }
        for step, entry in mapped.items():
            target = mapping[entry] + step.removeprefix(entry)
            if mapping[entry] and target in new:
                self._pairs[step] = target
        named = set(self._pairs.values())
        self._pairs |= _match_step_names(set(old) - set(mapped), set(new) - named)
        # A step keeps its name even if a mapping gives the name to another step, so that the report
        # shows both.
        self._pairs |= {step: step for step in old if step not in mapped and step in named}

    def translate_step(self, step: str) -> str | None:
        """Returns the new name of a step of the old pipeline; None if no step continues it."""
        return self._pairs.get(step)

    def list_mapping_problems(self) -> Iterator[Finding]:
        """Yields a finding for each entry of the mapping that can't be applied."""
        for before, after in self._mapping.items():
            problem = Finding(
                FindingVerdict.REFUSED,
                FindingReason.UNKNOWN_OLD_NAME,
                FindingSubject.MAPPING,
                step=before,
                before=before,
                after=after,
            )
            if not any(is_step_or_in_composite(step, before) for step in self._old):
                yield problem
            elif after and not any(
                self._find_mapping_entry(step) == before for step in self._pairs
            ):
                yield attrs.evolve(problem, reason=FindingReason.UNKNOWN_NEW_NAME)
            elif (other := self._find_conflicting_step(before)) is not None:
                yield attrs.evolve(problem, reason=FindingReason.TWO_OLD_NAMES, before=other)

    def _find_mapping_entry(self, step: str) -> str | None:
        """Returns the longest old name in the mapping that is the step's name or the name of a
        composite around the step.
        """
        entries = [entry for entry in self._mapping if is_step_or_in_composite(step, entry)]
        return max(entries, key=len, default=None)

    def _find_conflicting_step(self, entry: str) -> str | None:
        """Returns a step outside of a mapping entry that has the same new name as a step in the entry."""
        targets = {
            new: old for old, new in self._pairs.items() if self._find_mapping_entry(old) == entry
        }
        for old, new in self._pairs.items():
            if new in targets and self._find_mapping_entry(old) != entry:
                return old
        return None


def _match_step_names(old: Collection[str], new: Collection[str]) -> dict[str, str]:
    """Returns the new name by old name, without a mapping."""
    pairs = {}
    old_labels, new_labels = _group_steps_by_label(old), _group_steps_by_label(new)
    for label, before in old_labels.items():
        after = new_labels.get(label, [])
        if len(before) == len(after) == 1:
            pairs[before[0]] = after[0]
        elif sorted(before) == sorted(after):
            pairs |= {step: step for step in before}
    return pairs


def _group_steps_by_label(steps: Iterable[str]) -> dict[str, list[str]]:
    """Returns the steps, grouped by name without line numbers."""
    found: dict[str, list[str]] = {}
    for step in steps:
        found.setdefault(_LINE.sub(r"\1>", step), []).append(step)
    return found
