"""URNs of pipeline options, which clients send as keys of a job's options."""

from __future__ import annotations

PREFIX = "beam:option:"
SUFFIX = ":v1"

# The job name that the user chose. The `job_name` field of the Prepare request is always "job".
JOB_NAME = "beam:option:job_name:v1"
# Whether the user marks the job as a streaming job.
STREAMING = "beam:option:streaming:v1"
# Whether the job replaces a running job, as `--update` requests.
UPDATE = "beam:option:update:v1"
# Names of the experimental SDK and runner features that the user enables.
EXPERIMENTS = "beam:option:experiments:v1"
# Working directory of the program that submits the job; `BeamSparkRunner` sends it.
CLIENT_FOLDER = "beam:option:beam_spark_client_folder:v1"
# Environment variables for user code, as a list of "NAME=VALUE".
VARIABLES = "beam:option:beam_spark_env:v1"
