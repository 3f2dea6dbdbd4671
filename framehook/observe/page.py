"""HTML pages that need nothing but themselves.  `jinja2` is imported when one is made."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from framehook.observe.terminal import duration

if TYPE_CHECKING:
    from framehook.observe.explanation import Explanation


@functools.cache
def _environment() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("framehook.observe", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["duration"] = duration
    return environment


def render(template: str, title: str, subtitle: str, **values: Any) -> str:
    """A page from one of the templates."""
    from framehook import __version__

    page: str = (
        _environment()
        .get_template(template)
        .render(
            title=title,
            subtitle=subtitle,
            version=__version__,
            torch=torch.__version__,
            python=sys.version.partition(" ")[0],
            **values,
        )
    )
    return page


def explanation_page(explanation: Explanation) -> str:
    """What `Explanation.to_html` gives."""
    return render(
        "explanation.html",
        f"explain {explanation.function}",
        f"backend {explanation.backend}",
        it=explanation,
    )


__all__ = ["explanation_page", "render"]
