"""Object stores, a journal of jobs, and crash-safe SQLite databases."""
