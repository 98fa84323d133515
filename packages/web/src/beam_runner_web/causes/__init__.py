"""Sentences about the causes of failed, slow and stuck jobs, and about the activity of healthy jobs."""
