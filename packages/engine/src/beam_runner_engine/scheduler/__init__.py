"""Scheduler: a state machine that decides which stage processes which data; takes events, returns
commands.
"""
