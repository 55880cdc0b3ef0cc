"""How Sphinx builds the site: ``make docs``."""

import contextlib
import dataclasses
import io
import os
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import driftrl
from driftrl.cli.main import COMMANDS, main

project = "driftrl"
author = "driftrl contributors"
release = driftrl.__version__
html_title = f"driftrl {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["figures", "records"]
myst_heading_anchors = 3  # links such as theory.md#choosing-h-and-w

autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]


ORIGINALS: dict[str, list[str]] = {}
"""Docstrings of fields, by name."""


class Commands(SphinxDirective):
    """``.. commands::`` shows what ``driftrl COMMAND --help`` prints, for each."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        os.environ["COLUMNS"] = "80"
        return [section(name) for name in COMMANDS]


def section(command: str) -> nodes.section:
    """Return the help of a command under its name."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([command, "--help"])
    if not text.getvalue():
        raise ExtensionError(f"driftrl {command} --help printed nothing.")
    part = nodes.section(ids=[nodes.make_id(command)])
    part += nodes.title(text=command)
    part += nodes.literal_block(text=text.getvalue(), language="none")
    return part


def without_signature(
    app: Sphinx, what: str, name: str, obj: Any, *_: Any
) -> tuple[str, None] | None:
    """Leave out the signature of a dataclass: its fields are listed below it."""
    is_record = what == "class" and dataclasses.is_dataclass(obj)
    return ("", None) if is_record else None


def as_written(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep napoleon from reading "Start: one of those" as a type and its text.

    Called before it, and after it with what it made of a field's docstring.
    """
    if what in ("attribute", "data", "property"):
        lines[:] = ORIGINALS.setdefault(name, list(lines))
    elif what == "module" and name.startswith("driftrl.config."):
        lines.clear()  # for those who read the source


def setup(app: Sphinx) -> None:
    """Register the directive and the handlers."""
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-signature", without_signature)
    for priority in (400, 600):
        app.connect("autodoc-process-docstring", as_written, priority=priority)
