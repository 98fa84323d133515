"""Contract tests for implementations of the engine's protocols, and an in-memory store of state cells."""
