"""Journals: the committed entries of each job, with snapshots, in storage that survives a crash of
the server.
"""
