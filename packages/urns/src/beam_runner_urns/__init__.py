"""URNs of Apache Beam's model, as plain string constants.

Each module holds the URNs of one part of the model. For example, ``from beam_runner_urns import
coders`` provides ``coders.KV``. The source of all values is Beam's protos, and a test compares
every constant with them.
"""

from __future__ import annotations
