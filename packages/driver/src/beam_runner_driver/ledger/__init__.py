"""Ledger (the committed state of a job), its journal on disk, and the job's data files."""
