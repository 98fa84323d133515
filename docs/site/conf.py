"""How Sphinx makes a site of the documents and of the packages' docstrings: `nox -s docs`."""

from __future__ import annotations

project = "Beam runner for Spark"
root_doc = "docs/site/index"
# The source is the whole repository: documents link to each other as files, and are read there, too.
include_patterns = ["*.md", "docs/**", "packages/*/*.md"]
exclude_patterns = ["packages/*/CHANGELOG.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

html_theme = "furo"
html_title = project
html_show_copyright = False
html_show_sourcelink = False

myst_heading_anchors = 4
# Two layers may have a word alike, such as BundleFailed; a type in a signature then leads to neither.
suppress_warnings = ["ref.python"]

default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries = False
