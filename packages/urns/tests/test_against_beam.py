"""Tests that compare every constant with Beam's protos, so that no constant of the model is
missing.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import pytest
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_fn_api_pb2_urns, metrics_pb2
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms import environments as beam_environments

import beam_runner_urns
from beam_runner_urns import (
    artifacts,
    coders,
    environments,
    errors,
    metrics,
    options,
    payloads,
    protocols,
    python_sdk,
    requirements,
    resource_hints,
    side_inputs,
    spark,
    state,
    timestamps,
    transforms,
    windows,
)

# Beam lacks the suffix "_TYPE" in the name of this encoding only.
_RENAMED_ENCODINGS = {"HISTOGRAM": "HISTOGRAM_TYPE"}


def constants(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name.isupper()}


def urns_of(*enums: Any, prefix: str = "") -> dict[str, str]:
    """Returns the URN of each member of the enums that Beam generates from its protos, by name."""
    return {
        prefix + name: value.urn
        for enum in enums
        for name, value in vars(enum).items()
        if getattr(value, "urn", "")
    }


def metric_urns() -> dict[str, str]:
    values = metrics_pb2.MonitoringInfoSpecs.DESCRIPTOR.enum_types_by_name["Enum"].values
    extension = metrics_pb2.monitoring_info_spec
    return {value.name: value.GetOptions().Extensions[extension].urn for value in values}


def metric_labels() -> dict[str, str]:
    labels = metrics_pb2.MonitoringInfo.DESCRIPTOR.enum_types_by_name["MonitoringInfoLabels"]
    extension = metrics_pb2.label_props
    return {
        "LABEL_" + value.name: value.GetOptions().Extensions[extension].name
        for value in labels.values
    }


def metric_encodings() -> dict[str, str]:
    found = urns_of(common_urns.monitoring_info_types)
    return {_RENAMED_ENCODINGS.get(name, name): urn for name, urn in found.items()}


def python_constants() -> dict[str, str]:
    return {name: value for name, value in vars(python_urns).items() if name.isupper()}


@pytest.mark.parametrize(
    ("ours", "beams"),
    [
        (coders, urns_of(common_urns.coders)),
        (state, urns_of(common_urns.user_state)),
        (side_inputs, urns_of(common_urns.side_inputs)),
        (requirements, urns_of(common_urns.requirements)),
        (resource_hints, urns_of(common_urns.resource_hints)),
        (
            artifacts,
            urns_of(common_urns.artifact_types, prefix="TYPE_")
            | urns_of(common_urns.artifact_roles, prefix="ROLE_"),
        ),
        (
            transforms,
            urns_of(
                common_urns.primitives,
                common_urns.deprecated_primitives,
                common_urns.composites,
                common_urns.combine_components,
                common_urns.sdf_components,
                common_urns.group_into_batches_components,
                beam_fn_api_pb2_urns.FnApiTransforms.Runner,
            )
            | {
                "EXECUTABLE_STAGE": common_urns.executable_stage,
                "GENERIC_COMPOSITE": python_urns.GENERIC_COMPOSITE_TRANSFORM,
            },
        ),
        (
            protocols,
            urns_of(common_urns.protocols, common_urns.runner_protocols)
            | {"SDK_BASE_VERSION_PREFIX": beam_environments.SDK_VERSION_CAPABILITY_PREFIX},
        ),
        (
            windows,
            {
                "GLOBAL_WINDOWS": common_urns.global_windows.urn,
                "FIXED_WINDOWS": common_urns.fixed_windows.urn,
                "SLIDING_WINDOWS": common_urns.sliding_windows.urn,
                "SESSION_WINDOWS": common_urns.session_windows.urn,
            },
        ),
        (
            timestamps,
            {
                name: int(value.constant)
                for name, value in vars(common_urns.constants).items()
                if getattr(value, "constant", "")
            },
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, ModuleType) else "",
)
def test_urn_constants_of_each_module_equal_beam(ours: ModuleType, beams: dict[str, Any]) -> None:
    assert constants(ours) == beams


def test_urn_constants_of_metrics_equal_beam() -> None:
    ours = constants(metrics)
    labels = {name: value for name, value in ours.items() if name.startswith("LABEL_")}
    beams_labels = metric_labels()
    assert {**ours, **labels} == metric_urns() | metric_encodings() | labels
    assert labels == {name: beams_labels[name] for name in labels}


def test_urns_of_the_python_sdk_are_complete_across_modules() -> None:
    environment_names = {name: urn for name, urn in python_constants().items() if ":env:" in urn}
    others = python_constants().keys() - environment_names.keys()
    others -= {"GENERIC_COMPOSITE_TRANSFORM"}
    assert constants(environments) == urns_of(common_urns.environments) | environment_names
    assert constants(python_sdk) == {name: python_constants()[name] for name in others}


def test_option_keys_equal_the_keys_of_the_python_client() -> None:
    sent = JobServiceHandle.encode_pipeline_options({"job_name": "words"})
    assert dict(sent) == {options.JOB_NAME: "words"}
    assert options.JOB_NAME == options.PREFIX + "job_name" + options.SUFFIX


def test_all_modules_with_urn_constants_are_compared_with_beam() -> None:
    compared = {
        artifacts,
        coders,
        environments,
        errors,  # Beam doesn't define these names.
        metrics,
        options,
        payloads,  # Beam doesn't define these sets of URNs.
        protocols,
        python_sdk,
        requirements,
        resource_hints,
        side_inputs,
        spark,  # Beam doesn't define these URNs.
        state,
        timestamps,
        transforms,
        windows,
    }
    found = {
        importlib.import_module(f"beam_runner_urns.{module.name}")
        for module in pkgutil.iter_modules(beam_runner_urns.__path__)
    }
    assert found == compared
