"""Sphinx configuration of the site, from the documents and the packages' docstrings: `nox -s docs`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

project = "Beam runner for Spark"
root_doc = "docs/site/index"
# The source is the complete repository, because documents link to each other as files.
include_patterns = [
    "*.md",
    "docs/**",
    "packages/*/*.md",
    "examples/**.md",
    "tests/**.md",
    "deploy/**.md",
]
exclude_patterns = ["packages/*/CHANGELOG.md"]
extensions = ["myst_parser", "sphinxcontrib.mermaid", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

html_theme = "furo"
html_title = project
html_show_copyright = False
html_show_sourcelink = False

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
myst_enable_extensions = ["tasklist"]
# Two packages can have the same class name, such as BundleFailed; Sphinx links neither.
suppress_warnings = ["ref.python"]

default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries = False


def copy_pictures(app: Any, exception: Exception | None) -> None:
    """Copies the pictures in `<picture>` tags, which Sphinx doesn't see, beside the built pages."""
    if exception is None and app.builder.format == "html":
        pictures = Path(app.srcdir, "docs", "web")
        shutil.copytree(pictures, Path(app.outdir, "docs", "web"), dirs_exist_ok=True)


def setup(app: Any) -> None:
    """Registers the copy of pictures."""
    app.connect("build-finished", copy_pictures)
