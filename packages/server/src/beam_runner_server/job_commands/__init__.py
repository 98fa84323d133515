"""The commands for jobs: a terminal's view of any job server."""
