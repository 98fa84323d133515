"""Code that runs bundles in worker processes, one bundle at a time."""
