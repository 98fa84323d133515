"""Comparison of the plan of a running job with the plan of an edited pipeline, for an update."""
