"""Causes of failed, slow and stuck jobs, and descriptions of healthy jobs."""
