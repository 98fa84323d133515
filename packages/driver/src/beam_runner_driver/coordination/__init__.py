"""Execution of the engine's commands: the job coordinator, its orders to worker processes, and consistency checks."""
