"""Causes: why a job failed, is slow or stuck, and what a job that runs well does."""
