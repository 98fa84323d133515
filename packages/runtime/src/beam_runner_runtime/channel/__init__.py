"""The channel between the server and every Python worker process: authenticated, both ways.

Spark can't address a worker whose task has ended, and a task has one output only; so each worker
process attaches to the server by a stream of its own, for as long as it lives.
"""
