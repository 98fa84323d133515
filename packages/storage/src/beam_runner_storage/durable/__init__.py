"""SQLite databases, folders and logs that survive a crash."""
