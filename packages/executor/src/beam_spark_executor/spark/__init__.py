"""The one long-lived Spark session of a server: its settings, its Java process, its Python workers."""

from __future__ import annotations

import warnings

# PySpark warns at import about pandas 3, but this package doesn't use pandas: its data is Arrow's.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
