"""What both ends of a Job API channel agree on: pipelines and metrics may be of any size."""

from __future__ import annotations

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
