"""Views of the stages of a plan, with the parts of the stage descriptors that an update
compares.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import attrs
from beam_runner_model.buffers import BufferPlan
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import transforms as transform_urns
from beam_runner_urns.payloads import COMBINE_PARTS, PAR_DOS

from beam_runner_planner import _protos
from beam_runner_planner.plan import JobPlan, StagePlan
from beam_runner_planner.updates.coders import CoderTree, build_coder_tree
from beam_runner_planner.updates.pickles import digest_pickle

_EDGES = (transform_urns.DATA_SOURCE, transform_urns.DATA_SINK)
_BEGIN = "begin"
_KINDS_WITH_KEYS = ("group", "lifted", "keyed")
_KINDS_WITH_CODE = ("lifted", "keyed")


@attrs.frozen(eq=False, slots=False)
class StageView:
    """Stage of a plan, with the parts of its descriptor that an update compares.

    Attributes:
        plan: the stage in the plan.
        source: the buffer that the stage reads; None for an impulse.
        side_buffers: by name of a side input, the identity of the buffer with the side input's
            data.
    """

    plan: StagePlan
    source: BufferPlan | None
    side_buffers: Mapping[str, str]

    @property
    def strategy(self) -> WindowingStrategy | None:
        """The windowing strategy of the input; None for an impulse."""
        return None if self.source is None else self.source.strategy

    @property
    def input_identity(self) -> str | None:
        """The identity of the buffer that the stage reads; None for an impulse."""
        return None if self.source is None else self.source.identity

    @property
    def identity(self) -> str:
        """The identity of the stage."""
        return self.plan.identity

    @property
    def kind(self) -> str:
        """The kind in the identity, for example ``keyed``."""
        return self.identity.partition(":")[0]

    @property
    def step(self) -> str:
        """The full name of the step in the identity."""
        return self.identity.partition(":")[2]

    @property
    def is_source(self) -> bool:
        """Whether the stage begins with an impulse, and so reads no buffer."""
        return self.kind == _BEGIN

    @property
    def is_keyed(self) -> bool:
        """Whether the stage reads its input by key, and can have state."""
        return self.kind in _KINDS_WITH_KEYS

    @functools.cached_property
    def _descriptor(self) -> _protos.ProcessBundleDescriptor:
        return _protos.ProcessBundleDescriptor.FromString(self.plan.spec.descriptor)

    @functools.cached_property
    def transforms(self) -> dict[str, _protos.PTransform]:
        """The transforms of the stage by full name, without the data sources and sinks."""
        return {
            transform.unique_name: transform
            for transform in self._descriptor.transforms.values()
            if transform.spec.urn not in _EDGES
        }

    @property
    def steps(self) -> tuple[str, ...]:
        """The full names of the step in the identity and of the transforms."""
        return self.step, *self.transforms

    @functools.cached_property
    def input_coder(self) -> CoderTree:
        """The coder of the windowed values that the stage reads."""
        source = self._descriptor.transforms[self.plan.spec.input.transform_id]
        port = _protos.RemoteGrpcPort.FromString(source.spec.payload)
        return self.coder(port.coder_id)

    @property
    def element_coder(self) -> CoderTree:
        """The coder of the elements that the stage reads as main input."""
        return self.input_coder.parts[0]

    @property
    def window_coder(self) -> CoderTree:
        """The coder of the windows of the input."""
        return self.input_coder.parts[1]

    @property
    def key_coder(self) -> CoderTree | None:
        """The coder of the keys, if the stage reads keys and values."""
        return self._get_component_of_pair_coder(0)

    @property
    def value_coder(self) -> CoderTree:
        """The coder of the values, or of the elements if the stage doesn't read keys and values."""
        return self._get_component_of_pair_coder(1) or self.element_coder

    def coder(self, coder_id: str) -> CoderTree:
        """Returns the tree of a coder of the stage."""
        return build_coder_tree(coder_id, self._descriptor.coders)

    def get_pcollection_coder(self, pcollection_id: str) -> CoderTree:
        """Returns the coder of the elements of a PCollection of the stage."""
        return self.coder(self._descriptor.pcollections[pcollection_id].coder_id)

    def _get_component_of_pair_coder(self, index: int) -> CoderTree | None:
        is_pair = self.element_coder.urn == coder_urns.KV and len(self.element_coder.parts) > index
        return self.element_coder.parts[index] if self.is_keyed and is_pair else None

    @property
    def head_code(self) -> tuple[bytes, ...]:
        """The serialized code of the stage's first transform, which reads the stage's state,
        restrictions or accumulators.
        """
        if self.plan.table is not None:
            return (self.plan.table.payload,)
        if not (self.kind in _KINDS_WITH_CODE or self.plan.splittable):
            return ()
        source = self._descriptor.transforms[self.plan.spec.input.transform_id]
        read = set(source.outputs.values())
        code = self.list_code()
        return tuple(
            code[name]
            for name, transform in sorted(self.transforms.items())
            if name in code and read & set(transform.inputs.values())
        )

    def list_code(self) -> dict[str, bytes]:
        """Returns the serialized user code of each transform by full name, without paths and line
        numbers in Python's pickles.
        """
        code = {}
        for name, transform in self.transforms.items():
            functions = _list_functions(transform)
            if functions:
                code[name] = b"".join(
                    one.urn.encode() + digest_pickle(one.payload) for one in functions
                )
        return code


def list_stage_views(plan: JobPlan) -> dict[str, StageView]:
    """Returns the stages of a plan by identity, in the order of the plan."""
    views = {}
    for stage in plan.stages.values():
        source = None if stage.input_buffer is None else plan.buffers[stage.input_buffer]
        sides = {use.name: plan.buffers[use.buffer_id].identity for use in stage.side_inputs}
        views[stage.identity] = StageView(stage, source, sides)
    return views


def list_steps(views: Mapping[str, StageView]) -> Iterator[str]:
    """Yields the full names of all steps: the transforms in stages, and the steps that the runner
    executes itself.
    """
    for view in views.values():
        yield from view.steps


def _list_functions(transform: _protos.PTransform) -> list[_protos.FunctionSpec]:
    """Returns the user's functions in a transform, also those of its combining states."""
    urn, payload = transform.spec.urn, transform.spec.payload
    if urn in COMBINE_PARTS:
        return [_protos.CombinePayload.FromString(payload).combine_fn]
    if urn not in PAR_DOS:
        return []
    par_do = _protos.ParDoPayload.FromString(payload)
    states = (spec for _, spec in sorted(par_do.state_specs.items()))
    combining = [
        spec.combining_spec.combine_fn
        for spec in states
        if spec.WhichOneof("spec") == "combining_spec"
    ]
    return [par_do.do_fn, *combining]
