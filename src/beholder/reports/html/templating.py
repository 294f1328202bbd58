"""How pages are drawn: everything that comes from elsewhere is made plain and escaped."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from beholder.reports.flag_titles import flag_title
from beholder.reports.html import charts
from beholder.reports.html.texts import minus, name_of, plain
from beholder.reports.numbers import shown, with_interval
from beholder.statistics.intervals import Estimate
from beholder.verdicts.model import counted

PACKAGE = "beholder.reports.html"


def environment(*packages: str) -> Environment:
    """Templates of these packages, and those that a report and the app share (`parts.html.j2`). What is text is shown
    without anything that hides or reorders its letters; `Markup` is ours, and stays."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    made.filters |= {"named": name_of, "shown": _shown, "interval": _interval, "minus": minus, "state": state_name}
    made.filters["flag"] = flag_title
    made.globals |= {"charts": charts, "counted": counted}
    return made


def _shown(value: float | None, places: int = 3) -> str:
    return minus(shown(value, places))


def _interval(estimate: Estimate, places: int = 3) -> str:
    return minus(with_interval(estimate, places))


def state_name(state: str) -> str:
    """`over_budget` as people read it."""
    return state.replace("_", " ")
