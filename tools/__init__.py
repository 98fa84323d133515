"""Tools of this repository that nox sessions run beside well-known tools."""
