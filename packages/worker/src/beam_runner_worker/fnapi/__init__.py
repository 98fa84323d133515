"""Fn API harness: runs stages in SDK harnesses of any language over Beam's Fn API."""
