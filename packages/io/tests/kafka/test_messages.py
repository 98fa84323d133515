"""Tests of the coder of records."""

from __future__ import annotations

import pytest
from apache_beam.coders import registry

from beam_spark_io.kafka.messages import KafkaHeader, KafkaMessage, KafkaMessageCoder

FULL = KafkaMessage(
    "t", 3, 400, b"k", b"v", [KafkaHeader("a", b"1"), KafkaHeader("b", None)], 5, "CreateTime"
)


@pytest.mark.parametrize("message", [FULL, KafkaMessage("t", 0, 0, None, None, [], None, "")])
def test_decoded_kafka_message_equals_encoded_message(message: KafkaMessage) -> None:
    coder = registry.get_coder(KafkaMessage)
    assert coder == KafkaMessageCoder()
    decoded = coder.decode(coder.encode(message))
    assert decoded == message
    assert isinstance(decoded, KafkaMessage)
    assert all(isinstance(one, KafkaHeader) for one in decoded.headers)


def test_encoding_of_kafka_message_is_stable_across_versions() -> None:
    """Journals of jobs have encoded records."""
    assert KafkaMessageCoder().encode(FULL).hex() == (
        "01740390030101" + "6b" + "010176" + "00000002" + "0161010131" + "016200" + "0105"
        "0a" + b"CreateTime".hex()
    )
