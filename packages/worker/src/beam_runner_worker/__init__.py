"""Execution of bundles of fused Beam stages in SDK harnesses over the Fn API.

A runner implements the protocols of `ports`, and creates an `FnApiServer`.
"""
