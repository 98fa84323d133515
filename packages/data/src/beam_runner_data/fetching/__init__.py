"""Files of a job on the machine that reads them: fetched once, and checked."""
