"""Command-line commands that show and control the jobs of a running job server."""
