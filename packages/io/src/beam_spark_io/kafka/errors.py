"""Errors of `ReadFromKafka`."""

from __future__ import annotations


class BrokersUnavailable(Exception):
    """Raised if brokers don't respond. The message contains their addresses and the reason."""


class KafkaReadError(Exception):
    """Raised if a read fails permanently, for example because the topic doesn't exist."""


class KafkaDataLoss(KafkaReadError):
    """Raised if the broker has deleted records that the job hasn't read."""
