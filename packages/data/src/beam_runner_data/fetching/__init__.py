"""Downloads of a job's files to the machine that reads them, once per machine, with checksums."""
