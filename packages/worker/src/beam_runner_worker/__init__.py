"""Execution of bundles of fused Beam stages in SDK harnesses, embedded in Python or over the Fn API.

A host starts with `ports` and `records`, and with `EmbeddedHarness` or `FnApiHarness`.
"""
