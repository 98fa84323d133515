"""A running job: its thread, its event queue, its shutdown, the retention of its state, and the
switch to the job that replaces it.
"""
