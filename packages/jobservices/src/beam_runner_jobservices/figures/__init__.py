"""Metrics of a job by step and stage, for pages and commands that show them."""
