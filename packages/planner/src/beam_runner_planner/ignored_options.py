"""Warnings about Beam's pipeline options that have no effect in this runner."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from beam_runner_model.jobs import JobSpec
from beam_runner_model.texts import truncate_text
from beam_runner_urns import environments as environment_urns
from beam_runner_urns import options as option_urns
from beam_runner_urns import resource_hints

from beam_runner_planner import _protos
from beam_runner_planner.beam_options import (
    EFFECTIVE_OPTIONS,
    HARNESS_OPTIONS,
    list_beam_options,
)
from beam_runner_planner.environments import get_option_value, list_requested_experiments

# Experiments that Beam's Python SDK and this runner read. User code may read other experiments.
_EXPERIMENTS = (
    "beam_fn_api",
    "data_buffer_time_limit_ms",
    "disable_logging_submission_environment",
    "enable_data_sampling",
    "enable_heap_dump",
    "no_staged_dir_in_sys_path",
    "pre_optimize",
    "state_cache_size",
    "use_loopback_process_worker",
)
_WITH_HARNESS = ("PROCESS", "DOCKER", "EXTERNAL")
"""The environments whose user code runs in a separate process of an SDK harness."""
_OTHER_STARTER = ("LOOPBACK", "DOCKER", "EXTERNAL")
"""The environments whose harness processes don't inherit the environment variables of a worker process."""
_ALIKE = 0.85
_MOST = 100
"""The maximum number of experiments to check, and of hints to report."""
_LONGEST = 500
# For each resource hint: the name in Beam programs, and the Spark property that sets the resource
# for all tasks of a server.
_HINTS: Mapping[str, tuple[str, str]] = {
    resource_hints.ACCELERATOR: (
        "accelerator",
        "spark.executor.resource.gpu.amount and spark.task.resource.gpu.amount",
    ),
    resource_hints.CPU_COUNT: ("cpu_count", "spark.task.cpus"),
    resource_hints.MIN_RAM_BYTES: (
        "min_ram",
        "spark.executor.memory and spark.executor.memoryOverhead",
    ),
}
# A worker runs one bundle at a time, unless the worker is the client's own process or a shared
# pool.
_KEPT_BY_WORKERS = resource_hints.MAX_ACTIVE_BUNDLES_PER_WORKER


def describe_ignored_options(job: JobSpec) -> str:
    """Returns one sentence that names all options without effect; empty if every option has an effect."""
    named = [
        truncate_text(text, _LONGEST)
        for text in (
            *_find_ignored_options(job.options),
            *islice(_find_ignored_resource_hints(job.pipeline), _MOST),
        )
    ]
    return f"This runner ignores these options and hints: {', '.join(named)}" if named else ""


def _find_ignored_options(options: Mapping[str, Any]) -> Iterator[str]:
    environment = get_option_value(options, "environment_type")
    in_harness = environment in _WITH_HARNESS
    for name, default in list_beam_options().items():
        asked = get_option_value(options, name)
        if (
            name in EFFECTIVE_OPTIONS
            or asked is None
            or _normalize_option_value(asked) == _normalize_option_value(default)
        ):
            continue
        if name not in HARNESS_OPTIONS:
            yield f"--{name}={asked}"
        elif not in_harness:
            yield f"--{name}={asked} (set --environment_type={' or '.join(_WITH_HARNESS)} as well)"
    if environment in _OTHER_STARTER and options.get(option_urns.VARIABLES):
        yield f"--beam_spark_env (processes of {environment} don't inherit variables from workers)"
    for experiment in list_requested_experiments(options)[:_MOST]:
        name = experiment.split("=", 1)[0]
        meant = difflib.get_close_matches(name, _EXPERIMENTS, 1, _ALIKE)
        if meant and meant[0] != name:
            yield f"the experiment {name!r} (did you mean {meant[0]!r}?)"


def _normalize_option_value(value: Any) -> str:
    """Returns the value as text. Clients send numbers as texts, or as floating-point numbers."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value).lower()


def _find_ignored_resource_hints(pipeline: bytes) -> Iterator[str]:
    environments = _protos.Pipeline.FromString(pipeline).components.environments.values()
    hints = {
        (urn, value.decode(errors="replace"))
        for environment in environments
        for urn, value in environment.resource_hints.items()
        if urn != _KEPT_BY_WORKERS or environment.urn == environment_urns.EXTERNAL
    }
    for urn, value in sorted(hints):
        name, properties = _HINTS.get(urn, (urn, ""))
        instead = (
            f" (set {properties} of Spark instead, for all jobs of the server)"
            if properties
            else ""
        )
        yield f"the resource hint {name}={value}{instead}"
