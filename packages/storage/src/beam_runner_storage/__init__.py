"""Object stores, job journals, and crash-safe SQLite databases."""
