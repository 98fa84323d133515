"""The one long-lived Spark session of a server: its settings, its Java process, its Python workers."""

from __future__ import annotations

import warnings

# PySpark says so wherever it is imported beside pandas 3, of whose insides it uses nothing here: data is Arrow's.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
