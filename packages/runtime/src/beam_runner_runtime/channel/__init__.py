"""Authenticated channel between the server and each Python worker process.

Spark can't address a worker after its task ends, and a task has only one output. Therefore, each
worker process opens a separate gRPC stream to the server. The stream stays open until the process
exits.
"""
