"""Staged files that are installable packages, identified by the names that Beam's Python SDK
assigns.
"""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_urns import artifacts as urns

from beam_runner_model.stages import Artifact

REQUIREMENTS = "requirements.txt"
OTHER_REQUIREMENTS = "pip-requirements-"
"""Prefix of the names of requirements files that a client stages without a name."""
EXTRA_PACKAGES = "extra_packages.txt"
SETUP = "workflow.tar.gz"
SDK_SOURCE = "dataflow_python_sdk.tar"
WHEEL = ".whl"

_SDK_WHEEL = "apache_beam"


def has_packages(artifacts: Iterable[Artifact]) -> bool:
    """Returns whether any staged file is a package to install. Other files need no installation."""
    return any(
        artifact.role_urn == urns.ROLE_PIP_REQUIREMENTS_FILE
        or artifact.staged_name in (REQUIREMENTS, EXTRA_PACKAGES, SETUP, SDK_SOURCE)
        or is_sdk_wheel(artifact.staged_name)
        for artifact in artifacts
    )


def is_sdk_wheel(name: str) -> bool:
    """Returns whether a file name is the name of a wheel of Apache Beam."""
    return name.startswith(_SDK_WHEEL) and name.endswith(WHEEL)
