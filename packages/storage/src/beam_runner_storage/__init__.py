"""Object stores, a journal of jobs, and SQLite databases that survive a crash."""
