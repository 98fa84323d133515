"""Conversion between Beam's protos and the records of this package."""
