"""The tree of a pipeline's steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import attrs

from beam_runner_jobservices.description import PipelineDescription, StepDescription
from beam_runner_jobservices.step_names import StepNames


@attrs.frozen
class StepNode:
    """A step of the tree. `label` is its name within its composite, and `depth` its depth below the top."""

    id: str
    name: str
    label: str
    depth: int
    parent: str
    children: tuple[str, ...]
    description: StepDescription


class StepTree:
    """Tree of a pipeline's steps, without root composites that only contain all other steps.

    Attributes:
        top: the ids of the outermost remaining steps.
        steps: all steps by id, each composite before its parts.
    """

    def __init__(self, pipeline: PipelineDescription) -> None:
        self.pipeline = pipeline
        known = pipeline.steps
        top = [root for root in pipeline.roots if root in known]
        while len(top) == 1 and (inner := _list_children(known, top[0])):
            top = list(inner)
        self.top = tuple(top)
        self.steps: dict[str, StepNode] = {}
        for root in self.top:
            self._add_subtree(root, "", 0)
        self.names = StepNames({step.id: step.name for step in self.steps.values()})
        """The lookup of these steps by the names in metrics and messages."""

    def _add_subtree(self, root: str, parent: str, depth: int) -> None:
        pending = [(root, parent, depth)]
        while pending:
            key, above, level = pending.pop()
            described = self.pipeline.steps[key]
            if key in self.steps:
                continue
            children = _list_children(self.pipeline.steps, key)
            label = _shorten_name(described.name, self.pipeline.steps.get(above))
            self.steps[key] = StepNode(
                key, described.name, label, level, above, children, described
            )
            pending += [(child, key, level + 1) for child in reversed(children)]

    def find_step(self, name: str) -> str:
        """Returns the id of the step that a metric or a message refers to as `name`; empty if no step matches."""
        return self.names.find_step(name)

    def get_full_name(self, name: str) -> str:
        """Returns the full name of the step that `name` refers to, or `name` itself."""
        found = self.find_step(name)
        return self.steps[found].name if found else name

    def list_leaves(self, step: str) -> Iterator[str]:
        """Returns the ids of the steps without parts in `step`, including itself."""
        pending = [step]
        while pending:
            key = pending.pop()
            children = self.steps[key].children
            if children:
                pending += reversed(children)
            else:
                yield key

    def list_ancestors(self, step: str) -> Iterator[str]:
        """Returns the composites that contain `step`, innermost first."""
        above = self.steps[step].parent if step in self.steps else ""
        while above:
            yield above
            above = self.steps[above].parent

    @cached_property
    def producers(self) -> Mapping[str, str]:
        """The innermost step that produces each PCollection."""
        found: dict[str, str] = {}
        for step in self.steps.values():
            for pcollection in step.description.outputs.values():
                # A composite comes before its parts.
                if pcollection not in step.description.inputs.values():
                    found[pcollection] = step.id
        return found

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The innermost steps that produce an unbounded PCollection from bounded ones."""
        collections = self.pipeline.pcollections
        unbounded = {key for key, one in collections.items() if not one.bounded}
        return tuple(
            key
            for key, step in self.steps.items()
            if not step.children
            and unbounded.intersection(step.description.outputs.values())
            and not unbounded.intersection(step.description.inputs.values())
        )

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """The steps without parts whose output no step reads."""
        leaves = [step for step in self.steps.values() if not step.children]
        read = {one for step in leaves for one in step.description.inputs.values()}
        return tuple(
            step.id for step in leaves if not read.intersection(step.description.outputs.values())
        )


def _list_children(known: Mapping[str, StepDescription], key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(child for child in known[key].subtransforms if child in known))


def _shorten_name(name: str, parent: StepDescription | None) -> str:
    if parent is not None and name.startswith(parent.name + "/"):
        return name[len(parent.name) + 1 :]
    return name
