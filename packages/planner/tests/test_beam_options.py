"""Every option of Beam's Python SDK is either in the list of options with an effect, or in the list below."""

from __future__ import annotations

import pytest

from beam_runner_planner.beam_options import (
    EFFECTIVE_OPTIONS,
    HARNESS_OPTIONS,
    list_beam_options,
)

OTHER_RUNNERS = (
    "direct_",
    "flink_",
    "kafka_streams_",
    "prism_",
    "spark_",
    "job_server_j",
)
"""The prefixes of options that only another runner of Beam or its job server reads."""
IGNORED = {
    *("artifact_port", "artifacts_dir", "autoscaling_algorithm", "create_from_snapshot"),
    *(
        "dataflow_endpoint",
        "dataflow_job_file",
        "dataflow_service_options",
        "disk_provisioned_iops",
    ),
    *("disk_provisioned_throughput_mibps", "disk_size_gb", "disk_type", "enable_artifact_caching"),
    *("enable_hot_key_logging", "enable_streaming_engine", "environment_cache_millis"),
    *("expansion_port", "flexrs_goal", "jar_cache_dir", "job_port", "labels", "machine_type"),
    *("max_cache_memory_usage_mb", "max_num_workers", "max_parallelism", "min_cpu_platform"),
    *("network", "num_workers", "number_of_worker_harness_threads", "output_executable_path"),
    *("parallelism", "sdk_harness_container_image_overrides", "sdk_worker_parallelism"),
    *("service_account_email", "subnetwork", "template_location"),
    *("use_public_ips", "worker_region", "worker_zone", "zone"),
}


def test_every_pipeline_option_of_beam_is_supported_or_reported() -> None:
    """A new option of Beam needs a decision: the runner reports it until it is in one of the lists."""
    unknown = {
        name
        for name in list_beam_options().keys() - EFFECTIVE_OPTIONS - HARNESS_OPTIONS - IGNORED
        if not name.startswith(OTHER_RUNNERS)
    }
    assert unknown == set()


@pytest.mark.parametrize("listed", [EFFECTIVE_OPTIONS, HARNESS_OPTIONS])
def test_options_with_effect_are_not_ignored(listed: frozenset[str]) -> None:
    assert not {name for name in listed if name in IGNORED or name.startswith(OTHER_RUNNERS)}
    assert listed & list_beam_options().keys()


def test_options_with_effect_exclude_options_of_external_harnesses() -> None:
    assert not EFFECTIVE_OPTIONS & HARNESS_OPTIONS


def test_defaults_are_those_of_beam() -> None:
    options = list_beam_options()
    assert options["parallelism"] == -1
    assert options["spark_master_url"] == "local[4]"
    assert "help" not in options
