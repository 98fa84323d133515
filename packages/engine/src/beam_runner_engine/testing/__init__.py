"""For those who implement the engine's ports: contract tests and in-memory stores."""
