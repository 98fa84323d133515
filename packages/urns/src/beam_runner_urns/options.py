"""URNs of pipeline options, as keys of the options that a client sends with a job."""

from __future__ import annotations

PREFIX = "beam:option:"
SUFFIX = ":v1"

# The name the user gave the job; the name in the Prepare request is always "job".
JOB_NAME = "beam:option:job_name:v1"
# Whether the user calls the job a streaming one.
STREAMING = "beam:option:streaming:v1"
# What of the SDK and the runner is tried out, by name.
EXPERIMENTS = "beam:option:experiments:v1"
