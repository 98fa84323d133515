"""The names (URNs) that Apache Beam's model gives to its parts, as plain constants.

Import the module of the part: ``from beam_runner_urns import coders`` and ``coders.KV``. The
source is Beam's own protos; a test compares every constant with them.
"""

from __future__ import annotations
