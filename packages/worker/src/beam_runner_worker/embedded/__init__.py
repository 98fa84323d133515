"""Runs Python stages in this very process, with Beam's own bundle processor and our own edges."""
