"""Message queues that are read with acknowledgements."""
