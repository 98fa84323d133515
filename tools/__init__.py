"""What the nox sessions of this repository run beside well-known tools."""
