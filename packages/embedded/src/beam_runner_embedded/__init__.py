"""Embedded harness: runs Python stages in the current process, with Beam's bundle processor and this
package's inputs and outputs.
"""
