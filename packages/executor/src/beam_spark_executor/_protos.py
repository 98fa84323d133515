"""Beam's protocol buffers for the client, imported in this module only."""

from __future__ import annotations

from apache_beam.portability.api import beam_job_api_pb2

PrepareJobRequest = beam_job_api_pb2.PrepareJobRequest
RunJobRequest = beam_job_api_pb2.RunJobRequest
