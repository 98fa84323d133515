"""Execution of stages in SDK harnesses of any language over Beam's Fn API."""
