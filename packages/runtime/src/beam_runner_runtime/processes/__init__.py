"""Worker processes on this machine without Spark: forked from a process with preloaded modules, and
always killed at shutdown.
"""
