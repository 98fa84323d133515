"""Translation of a Beam pipeline into a job plan and a scheduler graph: fused stages, buffers between
stages, and TestStream events.
"""
