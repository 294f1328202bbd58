"""What every page uses: dependencies, templates with their filters, URLs, and errors as sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment
from markupsafe import Markup
from starlette.exceptions import HTTPException

from beholder.errors import LedgerError, UsageError
from beholder.ledger.encoding import storable_text
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports import html_report, text
from beholder.runs.ledger_access import correct_state
from beholder.verdicts.verdict import format_share
from beholder.web.security import HEADERS

FIRST_TEMPLATES = ("base.html", "runs.html")  # of the first page


def compile_first_templates() -> None:
    """Compile the templates of the first page (20 ms) before the app is ready; the others follow in the background."""
    for name in FIRST_TEMPLATES:
        template_environment().get_template(name)


API_PREFIX = "/api/"  # routes that answer in JSON, errors too


def from_state(name: str) -> Any:
    """Return the dependency on something that the app keeps in its state (`server.create_app`)."""

    def get(request: Request) -> object:
        return getattr(request.app.state, name)

    return Depends(get)


LedgerDep = Annotated[Ledger, from_state("ledger")]
RunName = Annotated[str, Query(max_length=500)]


MAX_FIELDS = 2000


async def _read_form(request: Request) -> dict[str, str]:
    """Parse an urlencoded form; the last value of a repeated name counts."""
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise UsageError("What was sent is not a form of this app.") from None


FormDep = Annotated[dict[str, str], Depends(_read_form)]


class NotFound(Exception):
    """What a request asks for is not in the ledger; the message says what."""


def render_page(template: str, status: int = 200, **values: object) -> HTMLResponse:
    """Render a template with `values`; `title` and `here` (the section of the app) are for its frame."""
    return HTMLResponse(template_environment().get_template(template).render(**values), status)


def find_run(ledger: Ledger, run: str) -> RunRecord:
    """Return the run that a URL names, as on the command line. Raises `NotFound`."""
    try:
        return correct_state(ledger, ledger.run(run))
    except LedgerError as error:
        raise NotFound(str(error)) from None


@cache
def template_environment() -> Environment:
    environment = html_report.make_environment("beholder.web")
    environment.filters |= {"json": _json, "pair": _choice_pair, "minus": text.use_minus_sign, "short": format_short}
    environment.filters["day"] = format_day
    environment.globals |= {
        "address": make_url,
        "time_left": format_time_left,
        "tone": score_tone,
        "share": format_share,
        "scored_mean": text.format_scored_mean,
        "instruction_of": lambda fields: text.split_instruction(dict(fields))[0],
    }
    return environment


def make_url(path: str, **asked: object) -> str:
    """Return a URL of the app.

    Args:
        path: Path, which is quoted.
        asked: Query parameters; None and empty ones are omitted, a tuple is repeated.
    """
    values = [
        (name, item) for name, value in asked.items() for item in (value if isinstance(value, tuple) else (value,))
    ]
    kept = [(name, storable_text(str(value))) for name, value in values if value is not None and value != ""]
    return quote(storable_text(path)) + (f"?{urlencode(kept)}" if kept else "")


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a list: the number of the one that is shown, how many there are, how many entries each has, and the
    URLs of the pages before and after it, empty where there is none."""

    at: int
    count: int
    size: int
    before: str
    after: str

    @property
    def first(self) -> int:
        """The place of the first entry of the page in the list, from 0."""
        return (self.at - 1) * self.size

    @property
    def shown(self) -> slice:
        """The entries of the page in the list."""
        return slice(self.first, self.first + self.size)


def paginate(total: int, at: int, size: int, link: Callable[[int | None], str]) -> Pages:
    """Return the pages of a list.

    Args:
        total: How many entries the list has.
        at: The page that is asked for, from 1; the last one where there are fewer.
        size: Entries of a page.
        link: Returns the URL of a page by its number, which is None for the first.
    """
    count = max(1, math.ceil(total / size))
    at = min(at, count)
    before, after = (link(one if one > 1 else None) if 1 <= one <= count else "" for one in (at - 1, at + 1))
    return Pages(at, count, size, before, after)


def parse_range(name: str, text: str) -> tuple[float, float] | None:
    """Return the range that a query parameter asks for, `LOW..HIGH` or one number; None for an empty text."""
    if not text.strip():
        return None
    low, dots, high = text.partition("..")
    try:
        ends = float(low), float(high if dots else low)
    except ValueError:
        ends = math.nan, math.nan
    if not ends[0] <= ends[1]:
        raise UsageError(f"{name} is a range such as 0.25..0.5, not {text!r}.")
    return ends


def to_json_values(value: object) -> object:
    """Return values that are valid JSON: lone surrogates as escapes, infinity and nan as texts.

    Hidden characters are not escaped: a program wants names as they are.
    """
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {storable_text(str(key)): to_json_values(inner) for key, inner in value.items()}
    return [to_json_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def format_short(value: float | None, *, decisive: bool = False) -> str:
    """Return a score as people write it: `4`, `3.5`, at most two decimals. For a `decisive` one see `format_share`."""
    shown = format_share(value, decisive=True) if decisive and value is not None else text.format_number(value, 2)
    return text.use_minus_sign(shown.removesuffix("0").removesuffix(".0"))


def format_day(moment: datetime) -> str:
    """Return a time as `18 Nov 2026, 03:00` (UTC)."""
    return f"{moment.day} {moment:%b %Y, %H:%M}"


def format_time_left(minutes: float) -> str:
    """Return about how long a run still takes: `about 7 min left`."""
    if minutes < 1:
        return "less than a minute left"
    if minutes < 90:
        return f"about {minutes:.0f} min left"
    return f"about {minutes / 60:.1f} h left" if minutes < 60 * 48 else f"about {minutes / 1440:.0f} days left"


def score_tone(share: float | None) -> str:
    """Return the CSS class of a share of the scale: good, fair or bad; the same thresholds as in verdict-view.js."""
    if share is None:
        return "none"
    return "good" if share >= 0.7 else "fair" if share >= 0.5 else "bad"


def add_error_handlers(app: FastAPI) -> None:
    """Answer errors of the user with their message, and internal errors with a general one."""

    @app.exception_handler(NotFound)
    async def _not_there(request: Request, error: NotFound) -> Response:
        return _error_response(request, 404, str(error))

    @app.exception_handler(UsageError)
    async def _usage(request: Request, error: UsageError) -> Response:
        return _error_response(request, 503 if isinstance(error, LedgerError) else 400, str(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        problems = [
            f"{'.'.join(str(part) for part in problem['loc'][1:])}: {problem['msg']}" for problem in error.errors()
        ]
        return _error_response(request, 422, "This address cannot be read. " + "; ".join(problems))

    @app.exception_handler(Exception)
    async def _ours(request: Request, error: Exception) -> Response:
        # Starlette sends this response outside of RequestGuard, which would add the headers; the log has the traceback.
        answer = _error_response(request, 500, "Internal error; see the terminal that runs Beholder.")
        answer.headers.update(HEADERS)
        return answer

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        sentence = "There is no such page." if error.status_code == 404 else str(error.detail)
        return _error_response(request, error.status_code, sentence)


def _error_response(request: Request, status: int, sentence: str) -> Response:
    # A visitor must not learn the path of the ledger: "the ledger PATH" becomes "this ledger".
    sentence = sentence.replace(f"he ledger {request.app.state.ledger.place!r}", "his ledger")
    if request.url.path.startswith(API_PREFIX):
        return JSONResponse({"error": text.escape_hidden(sentence)}, status)
    return render_page("error.html", status, title="Not found" if status == 404 else "That did not work", why=sentence)


def _choice_pair(value: str, kind: str = "") -> tuple[str, str]:
    """Return a value of a choice with its label; `kind` is `state`, `flag`, `winner` or empty for the value itself."""
    titles = {"state": text.humanize_state, "flag": text.flag_title, "winner": text.winner_title}
    return value, titles[kind](value) if kind else value


def _json(value: object) -> Markup:
    return Markup(text.script_json(to_json_values(text.escape_hidden_values(value))))
