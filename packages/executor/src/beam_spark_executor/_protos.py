"""The one place where Beam's protocol buffers enter this package."""

from __future__ import annotations

from apache_beam.portability.api import beam_job_api_pb2

PrepareJobRequest = beam_job_api_pb2.PrepareJobRequest
RunJobRequest = beam_job_api_pb2.RunJobRequest
