"""Replacement of Beam's operations by operations of this package, which process many elements in one call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from apache_beam.runners.worker import bundle_processor, operations
from beam_runner_urns import transforms as urns

from beam_runner_embedded.assign_windows import AssignWindows
from beam_runner_embedded.combine_tables import MemoryBoundedCombine
from beam_runner_embedded.par_do import ElementRunParDo
from beam_runner_embedded.replacing import replace_attribute
from beam_runner_embedded.runs import ElementRunFlatten
from beam_runner_embedded.stateful_par_do import StatefulParDo


@contextlib.contextmanager
def use_element_run_operations(table_bytes: int) -> Iterator[None]:
    """Makes Beam build operations of this package, which process runs (lists of elements that differ
    only in their values), while this context is active.

    Args:
        table_bytes: the memory limit of a lifted combine's table.
    """
    create = bundle_processor._create_pardo_operation

    def create_element_run_operation(
        factory: Any,
        transform_id: str,
        transform: Any,
        consumers: Any,
        serialized_fn: Any,
        payload: Any = None,
        operation_cls: type[operations.DoOperation] = operations.DoOperation,
    ) -> operations.DoOperation:
        stateful = payload is not None and (payload.state_specs or payload.timer_family_specs)
        needs_more = payload is not None and (
            payload.restriction_coder_id or (stateful and payload.side_inputs)
        )
        if transform.spec.urn == urns.ASSIGN_WINDOWS:
            operation_cls = AssignWindows
        elif operation_cls is operations.DoOperation and not needs_more:
            operation_cls = StatefulParDo if stateful else ElementRunParDo
        return create(
            factory, transform_id, transform, consumers, serialized_fn, payload, operation_cls
        )

    combine = partial(MemoryBoundedCombine, most_bytes=table_bytes)
    with (
        replace_attribute(
            bundle_processor, "_create_pardo_operation", create_element_run_operation
        ),
        replace_attribute(operations, "FlattenOperation", ElementRunFlatten),
        replace_attribute(operations, "PGBKCVOperation", combine),
    ):
        yield
