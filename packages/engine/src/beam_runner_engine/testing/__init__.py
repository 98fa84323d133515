"""For those who implement the engine's ports: contract tests, and a store in memory."""
