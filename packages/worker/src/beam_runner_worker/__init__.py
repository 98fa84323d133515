"""Execution of bundles of fused Beam stages in SDK harnesses, embedded in Python or over the Fn API.

A host implements the protocols of `ports`, and creates an `EmbeddedHarness` or an `FnApiServer`.
"""
