"""Rendering of templates to HTML. All inserted values are sanitized, then escaped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from beam_runner_jobservices.figures import samples, texts
from beam_runner_jobservices.texts import parse_iso_time
from beam_runner_model.rendering import render_record
from beam_runner_model.shadow_rendering import render_shadow_report
from beam_runner_model.stories import render_bundle_status, render_data_piece, render_history_event
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

STATIC = Path(__file__).parent / "static"
_TEMPLATES = Path(__file__).parent / "templates"
_EXTENDS = re.compile(r'{% extends "([^"]+)" %}')
_LIVE = "live_"
_DIGITS = 16


class Renderer:
    """Renderer of the templates; `root_path` is the prefix of all links."""

    def __init__(self, root_path: str = "") -> None:
        self._root = root_path
        self._bases: dict[str, tuple[str, ...]] = {}
        self._env = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            finalize=_sanitize_value,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        versions = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            for path in STATIC.iterdir()
            if path.is_file()
        }
        self._env.globals.update(
            link=self.make_link,
            static=lambda name: f"{root_path}/static/{name}?v={versions[name]}",
            css=lambda: Markup((STATIC / "web.css").read_text(encoding="utf-8")),
        )
        for helper in (
            texts.format_count,
            texts.format_exact_number,
            texts.format_size,
            texts.format_duration,
            texts.format_short_duration,
            texts.format_core_time,
            texts.format_percentage,
            texts.format_iso_seconds,
            texts.format_utc_time,
            texts.format_watermark,
            texts.truncate_to_line,
            texts.format_age,
            parse_iso_time,
            render_shadow_report,
        ):
            self._env.filters[helper.__name__] = helper
        self._env.filters["sample"] = samples.format_sample
        self._env.filters["wait_text"] = lambda wait, now=None: render_record(wait, now=now)
        self._env.filters.update(
            status=render_bundle_status, step=render_history_event, piece=render_data_piece
        )
        self._env.globals["ui"] = self._env.get_template("macros.html").module

    def make_link(self, path: str, *parts: str, **query: Any) -> Markup:
        """Returns a link to a path of this server, with `parts` in place of each `{}`, and `query`
        without None values.
        """
        whole = path.format(*(quote(part, safe="") for part in parts))
        pairs = [
            (name.rstrip("_"), str(one))
            for name, value in query.items()
            if value is not None
            for one in (value if isinstance(value, list | tuple) else (value,))
        ]
        return Markup.escape(f"{self._root}{whole}" + (f"?{urlencode(pairs)}" if pairs else ""))

    def render_page(self, template: str, values: Mapping[str, Any]) -> str:
        """Returns a complete page."""
        return self._env.get_template(template).render(values)

    def render_live_parts(self, template: str, values: Mapping[str, Any]) -> dict[str, str]:
        """Returns the changing parts of a page, by the id of the HTML element of each part."""
        parts: dict[str, str] = {}
        for name in self._list_template_chain(template):
            loaded = self._env.get_template(name)
            context = loaded.new_context(dict(values))
            for block, fill in loaded.blocks.items():
                if block.startswith(_LIVE) and block not in parts:
                    parts[block] = "".join(fill(context))
        return parts

    def _list_template_chain(self, template: str) -> tuple[str, ...]:
        """Returns a template, and all templates that the template extends."""
        if template not in self._bases:
            source = (_TEMPLATES / template).read_text(encoding="utf-8")
            found = _EXTENDS.match(source)
            self._bases[template] = (
                template,
                *(self._list_template_chain(found[1]) if found else ()),
            )
        return self._bases[template]


def _sanitize_value(value: Any) -> Any:
    """Sanitizes texts in templates; markup stays unchanged."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return texts.sanitize_for_display(value)
    return value


def parse_whole_number(text: str, otherwise: int) -> int:
    """Returns the number in a URL if the number is in a plausible range. Python refuses to parse
    thousands of digits.
    """
    return int(text) if text.isdecimal() and len(text) < _DIGITS else otherwise
