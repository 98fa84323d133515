"""Options of Beam's Python SDK, with lists of the options that have an effect with this runner."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cache
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

_OF_THE_PIPELINE = {
    *("allow_non_deterministic_key_coders", "allow_unsafe_triggers", "auto_unique_labels"),
    *("disable_beartype", "exclude_infer_dataclass_field_type", "experiments"),
    *("force_cloudpickle_deterministic_coders", "gbek", "performance_runtime_type_check"),
    *("pickle_library", "pipeline_type_check", "resource_hints", "runner", "runtime_type_check"),
    *("save_main_session", "streaming", "type_check_additional", "type_check_strictness"),
    "update_compatibility_version",
}
_OF_THE_CLIENT = {
    *("artifact_endpoint", "beam_services", "dry_run", "environment_config"),
    *("environment_options", "environment_type", "job_endpoint", "job_name", "job_server_timeout"),
    *("no_wait_until_finish", "on_success_matcher", "use_transform_service"),
    "wait_until_finish_duration",
}
_OF_STAGED_FILES = {
    *("beam_plugins", "cloud_build_machine_type", "docker_registry_push_url", "extra_packages"),
    *("files_to_stage", "maven_repository_url", "prebuild_sdk_container_base_image"),
    *("prebuild_sdk_container_engine", "requirements_cache", "requirements_cache_only_sources"),
    *("requirements_file", "sdk_container_image", "sdk_location", "setup_file", "user_agent"),
    "worker_harness_container_image",
}
_OF_CONNECTORS = {
    *("azure_connection_string", "azure_managed_identity_client_id", "blob_service_endpoint"),
    *(
        "dataflow_kms_key",
        "enable_bucket_read_metric_counter",
        "enable_bucket_write_metric_counter",
    ),
    *(
        "enable_gcsio_blob_generation",
        "gcp_oauth_scopes",
        "gcs_custom_audit_entries",
        "hdfs_full_urls",
    ),
    *("hdfs_host", "hdfs_port", "hdfs_user", "impersonate_service_account", "no_auth"),
    *("no_gcsio_throttling_counter", "project", "pubsubRootUrl", "region", "s3_access_key_id"),
    *(
        "s3_api_version",
        "s3_disable_ssl",
        "s3_endpoint_url",
        "s3_region_name",
        "s3_secret_access_key",
    ),
    *("s3_session_token", "s3_verify", "staging_location", "temp_location"),
}
_OF_LOGGING = {"default_sdk_harness_log_level", "sdk_harness_log_level_overrides"}
_OF_UPDATES = {"transform_name_mapping", "update"}
_OF_USERS = {"application_id", "bootstrap_servers"}
"""Options of Beam's Kafka Streams runner. User code is likely to use the same names for its own options."""

EFFECTIVE_OPTIONS = frozenset(
    _OF_THE_PIPELINE
    | _OF_THE_CLIENT
    | _OF_STAGED_FILES
    | _OF_CONNECTORS
    | _OF_LOGGING
    | _OF_UPDATES
    | _OF_USERS
)
"""The options of Beam that have an effect in the client, in the workers or in this runner."""

HARNESS_OPTIONS = frozenset(
    {
        *("element_processing_timeout_minutes", "profile_cpu", "profile_location"),
        *("profile_memory", "profile_postprocess_interval_sec", "profile_sample_rate"),
        *("profile_temp_location", "profile_upload_interval_sec", "profiler_agent"),
        *("profiler_extra_args", "profiler_extra_env_vars", "profiler_stop_after_crash"),
        "profiler_stop_after_sec",
    }
)
"""The options of Beam that only have an effect in a separate SDK harness process."""


@cache
def list_beam_options() -> Mapping[str, Any]:
    """Returns the default value of each option of Beam's Python SDK, by name."""
    found: dict[str, Any] = {}
    for options in PipelineOptions.__subclasses__():
        if options.__module__ == PipelineOptions.__module__:
            parser = argparse.ArgumentParser(add_help=False)
            options._add_argparse_args(parser)
            found |= {action.dest: action.default for action in parser._actions}
    return found
