"""Warnings about options of a job that other runners use, and that have no effect in this runner."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from beam_runner_model.jobs import JobSpec
from beam_runner_model.texts import truncate_text
from beam_runner_urns import environments as environment_urns
from beam_runner_urns import resource_hints

from beam_runner_planner import _protos
from beam_runner_planner.environments import option_value, requested_experiments

# Each option has the default value that clients send if the user sets nothing.
_OPTIONS: Mapping[str, Any] = {
    "sdk_worker_parallelism": 1,
    "parallelism": -1,
    "spark_master_url": "local[4]",
    "update": False,
    "num_workers": None,
    "max_num_workers": None,
    "machine_type": None,
    "disk_size_gb": None,
    "autoscaling_algorithm": None,
}
# These are the experiments that Beam's Python SDK and this runner read. User code may read others.
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
_ALIKE = 0.85
_MOST = 100
"""The maximum number of experiments to check, and of hints to report."""
_LONGEST = 500
# Each resource hint has its name in programs and the Spark property that sets it for all tasks of a
# server.
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
            *_ignored_options(job.options),
            *islice(_ignored_resource_hints(job.pipeline), _MOST),
        )
    ]
    return f"This runner ignores these options and hints: {', '.join(named)}" if named else ""


def _ignored_options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, default in _OPTIONS.items():
        asked = option_value(options, name)
        if asked is not None and str(asked).lower() != str(default).lower():
            yield f"--{name}={asked}"
    for experiment in requested_experiments(options)[:_MOST]:
        name = experiment.split("=", 1)[0]
        meant = difflib.get_close_matches(name, _EXPERIMENTS, 1, _ALIKE)
        if meant and meant[0] != name:
            yield f"the experiment {name!r} (did you mean {meant[0]!r}?)"


def _ignored_resource_hints(pipeline: bytes) -> Iterator[str]:
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
