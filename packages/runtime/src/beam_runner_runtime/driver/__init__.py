"""Server side of a running job. The driver runs bundles on lanes and commits their results."""
