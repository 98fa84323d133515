"""Transfer of a job's committed state (its ledger) to an updated job or to a savepoint."""
