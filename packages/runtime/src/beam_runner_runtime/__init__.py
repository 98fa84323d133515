"""Runs the plan of a Beam pipeline on processes that a placement provides: coordinator, lanes, channel, bundles."""
