"""A job's files on the machine that reads them: fetched once per machine, and verified."""
