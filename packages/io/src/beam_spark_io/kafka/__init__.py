"""Transforms for Kafka that use librdkafka's Python client: `ReadFromKafka` and `WriteToKafka`."""
