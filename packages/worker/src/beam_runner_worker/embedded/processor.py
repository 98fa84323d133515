"""Beam's bundle processor with a set-up that can be undone and without channels or threads."""

from __future__ import annotations

import collections
import logging
from typing import Any

from apache_beam.runners.worker import operations
from apache_beam.runners.worker.bundle_processor import BundleProcessor

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.embedded.edges import Edges
from beam_runner_worker.embedded.side_inputs import SideInputs, our_side_inputs
from beam_runner_worker.embedded.sinks import Sink
from beam_runner_worker.embedded.source import Source

_LOGGER = logging.getLogger(__name__)


class Processor(BundleProcessor):
    """The operations of a stage, built once (about 3 ms) and used for many bundles.

    Beam sets up every DoFn inside its constructor, and when one of them raises, nobody can tear
    down the others. So the constructor here only builds; :meth:`set_up` sets up.

    Attributes:
        running: the operation whose set-up, start or finish is being called, else None.
        side_inputs: what was given.
        source: the operation that takes the input.
        sinks: the operations that write the outputs, by transform id.
    """

    def __init__(
        self,
        descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
        side_inputs: SideInputs,
        edges: Edges,
    ) -> None:
        self.running: operations.Operation | None = None
        self.side_inputs = side_inputs
        self._tree: collections.OrderedDict[str, operations.Operation]
        self._tree = collections.OrderedDict()
        self._are_set_up: list[operations.Operation] = []
        with our_side_inputs():
            super().__init__(frozenset(), descriptor, side_inputs, edges)
        self.ops = self._tree
        (self.source,) = (op for op in self.ops.values() if isinstance(op, Source))
        self.sinks = {name: op for name, op in self.ops.items() if isinstance(op, Sink)}

    def create_execution_tree(
        self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor
    ) -> collections.OrderedDict[str, Any]:
        """Builds the operations, but shows Beam's constructor none, which it would set up."""
        self._tree = super().create_execution_tree(descriptor)
        return collections.OrderedDict()

    def set_up(self) -> None:
        """Sets up every operation, consumers first; raises what user code raises."""
        for op in reversed(self.ops.values()):
            self.running = op
            op.setup(None)
            self._are_set_up.append(op)
        self.running = None

    def tear_down(self) -> None:
        """Tears down what was set up, once; an error in one does not keep others from theirs."""
        ops, self._are_set_up = self._are_set_up, []
        for op in reversed(ops):
            try:
                op.teardown()
            except Exception:
                _LOGGER.exception("Teardown of %s failed", op.name_context.step_name)
