"""URNs of artifacts: a type says how to fetch a dependency, and a role says how the SDK uses the
dependency.
"""

from __future__ import annotations

# Artifact types.
TYPE_FILE = "beam:artifact:type:file:v1"
TYPE_URL = "beam:artifact:type:url:v1"
TYPE_EMBEDDED = "beam:artifact:type:embedded:v1"
TYPE_PYPI = "beam:artifact:type:pypi:v1"
TYPE_MAVEN = "beam:artifact:type:maven:v1"
TYPE_DEFERRED = "beam:artifact:type:deferred:v1"

# Artifact roles.
ROLE_STAGING_TO = "beam:artifact:role:staging_to:v1"
ROLE_PIP_REQUIREMENTS_FILE = "beam:artifact:role:pip_requirements_file:v1"
ROLE_GO_WORKER_BINARY = "beam:artifact:role:go_worker_binary:v1"
