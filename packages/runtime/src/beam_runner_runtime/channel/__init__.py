"""Channel: authenticated gRPC stream between the server and each Python worker process.

Spark can't send messages to its tasks, and a task can only return its output at its end. Therefore,
each worker process opens a gRPC stream to the server. The stream stays open until the process
exits.
"""
