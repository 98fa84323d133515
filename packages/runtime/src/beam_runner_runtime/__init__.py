"""Runtime of a Beam pipeline's plan on processes of a placement: coordinator, lanes, channel and bundles."""
