"""Rollback of an update: pipeline options with which the earlier program replaces the running job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import grpc
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobInfo, JobSpec
from beam_runner_model.successions import RollbackRequest
from beam_runner_model.updates import UpdateInstructions
from beam_runner_runtime.job_options import KEY_SHARDS, is_loopback
from beam_runner_runtime.option_errors import InvalidOptionError
from beam_runner_runtime.option_values import make_option_key
from beam_runner_runtime.update_options import make_rollback_options, parse_update_options
from beam_runner_urns import environments as environment_urns

_CONNECT_SECONDS = 3.0


def plan_rollback(
    running: JobInfo, replaced: JobSpec, request: RollbackRequest
) -> Mapping[str, Any]:
    """Returns the pipeline options of a rollback (``beam_runner_jobservices.ports.RollbackPlanner``).

    Raises:
        JobRejected: an option is invalid, the mapping of the update has no reverse, or the program that
            runs the user code of the replaced job isn't reachable.
    """
    if unreachable := _find_unreachable_program(replaced):
        raise JobRejected(unreachable, unsupported=False)
    mapping = request.mapping or _reverse_mapping(running)
    # The running job can have more key shards than the earlier job, and the number of key shards can't decrease.
    shards = make_option_key(KEY_SHARDS.name)
    own = {key: value for key, value in replaced.options.items() if key != shards}
    options = make_rollback_options(
        attrs.evolve(replaced, options=own),
        running.job_id,
        UpdateInstructions(mapping, frozenset(request.drop), frozenset(request.trust)),
        quiet=request.quiet,
        is_check=request.is_check,
    )
    try:
        parse_update_options(options)
    except InvalidOptionError as error:
        raise JobRejected(str(error), unsupported=False) from error
    return options


def _reverse_mapping(running: JobInfo) -> Mapping[str, str]:
    """Returns a map from the new names of steps, after the update, to the old names."""
    update = parse_update_options(running.options)
    # An entry without a new name only permits the removal of a step, so it has no reverse.
    entries = [] if update is None else [one for one in update.wishes.mapping.items() if one[1]]
    shared = [name for name, count in Counter(new for _, new in entries).items() if count > 1]
    if shared:
        raise JobRejected(
            f"the update of job {running.job_id} maps several steps to {shared[0]!r}, so the "
            "rollback"
            " needs a mapping from the new names to the old names: set --transform_name_mapping",
            unsupported=False,
        )
    return {new: old for old, new in entries}


def _find_unreachable_program(job: JobSpec) -> str:
    """Returns a sentence if the LOOPBACK program that runs a job's user code has exited; otherwise empty."""
    if not is_loopback(job.options_json):
        return ""
    for address in _list_pools(job.pipeline):
        with grpc.insecure_channel(address) as channel:
            try:
                grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
            except grpc.FutureTimeoutError:
                return (
                    f"job {job.job_id} has --environment_type=LOOPBACK, and the program that "
                    "submitted"
                    f" the job and runs its user code at {address} isn't reachable: submit the old"
                    " pipeline again with --update"
                )
    return ""


def _list_pools(pipeline: bytes) -> Iterator[str]:
    """Yields the addresses of the external worker pools in a pipeline's environments."""
    for environment in describe_pipeline(pipeline).environments.values():
        if environment.urn == environment_urns.EXTERNAL and environment.details:
            yield environment.details
