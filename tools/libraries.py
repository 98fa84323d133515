"""Third-party libraries that publish their tests: requirements, and the tests that run pipelines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThirdPartyLibrary:
    """Third-party library whose tests run on the server.

    Attributes:
        name: name on PyPI.
        needed: requirements, including the needs of its tests.
        tests: arguments of pytest.
    """

    name: str
    needed: tuple[str, ...]
    tests: tuple[str, ...]


_PYTEST = ("pytest", "pytest-timeout", "pandas<3")
LIBRARIES = (
    ThirdPartyLibrary(
        "xarray-beam",
        (*_PYTEST, "xarray-beam[tests]==0.11.*", "scipy"),
        ("--pyargs", "xarray_beam", "-o", "python_files=*_test.py"),
    ),
    ThirdPartyLibrary(
        "cubed",
        (
            *_PYTEST,
            "cubed[diagnostics]==0.27.*",
            "dill",
            "hypothesis",
            "numpy_groupies",
            "obstore",
            "pytest-mock",
        ),
        (
            "--pyargs",
            "cubed.tests",
            "-k",
            "beam or FnApi",
            "-m",
            "not cloud",
            "-p",
            "no:cacheprovider",
        ),
    ),
)
LEFT_OUT = {
    "asgarde": "its wheel has no tests",
    "dataflow-cookbook": "it is no package",
    "tensorflow-transform": "its own marks leave its tests of pipelines out",
    "tensorflow-data-validation": "its wheels for this Python want a pyarrow below 11",
    "beam-nuggets": "its tests want databases",
    "pipeline-dp": "its wheel has no tests",
    "weatherbench2": "it is no package",
    "mlcroissant": "its tests of pipelines read data sets that its wheel has not",
    "seqio": "not tried: it brings TensorFlow and JAX",
    "pangeo-forge-recipes": "not tried: its tests want older versions of pytest and zarr",
}
"""Other libraries that users of Beam know, and the reasons why the session doesn't run their tests."""
