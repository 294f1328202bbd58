"""What every page uses: the ledger, the templates, and errors as sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated
from urllib.parse import quote, urlencode

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
from beholder.reports import html_report
from beholder.reports.formatting import format_number
from beholder.reports.text import (
    escape_hidden,
    escape_hidden_values,
    flag_title,
    humanize_state,
    script_json,
    use_minus_sign,
)
from beholder.web.security import HEADERS

FIRST_TEMPLATES = ("base.html", "runs.html")  # what the first page is drawn with


def compile_first_templates() -> None:
    """The least that is done before the app says that it is there: 20 ms."""
    for name in FIRST_TEMPLATES:
        template_environment().get_template(name)


API = "/api/"  # what answers in JSON, errors too


def _get_ledger(request: Request) -> Ledger:
    found = request.app.state.ledger
    assert isinstance(found, Ledger)
    return found


LedgerDep = Annotated[Ledger, Depends(_get_ledger)]
RunName = Annotated[str, Query(max_length=500)]


class NotFound(Exception):
    """What was asked for is not in the ledger; the sentence says what."""


def render_page(request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
    """A page from `templates/`, everything in it escaped. `title` and `here` (a part of the app) go into the frame."""
    return HTMLResponse(template_environment().get_template(template).render(**values), status)


def find_run(book: Ledger, run: str) -> RunRecord:
    """The run that an address names, as `beholder show` names it."""
    try:
        return book.run(run)
    except LedgerError as error:
        raise NotFound(str(error)) from None


@cache
def template_environment() -> Environment:
    made = html_report.make_environment("beholder.web")
    made.filters |= {"json": _json, "pair": _choice_pair, "minus": use_minus_sign, "short": format_short}
    made.globals |= {"address": make_url, "tone": score_tone}
    return made


def make_url(path: str, **asked: object) -> str:
    """An address in the app. Each part of the path is made safe with its place; what is None or empty is not asked, of
    several values each."""
    values = [(name, one) for name, value in asked.items() for one in (value if isinstance(value, tuple) else (value,))]
    kept = [(name, storable_text(str(value))) for name, value in values if value is not None and value != ""]
    return quote(storable_text(path)) + (f"?{urlencode(kept)}" if kept else "")


def to_json_values(value: object) -> object:
    """JSON values that any reader takes: halves of surrogate pairs written out, and numbers that JSON has no word for
    as texts. Not made plain for people to read: who asks for JSON wants names as they are."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {storable_text(str(key)): to_json_values(inner) for key, inner in value.items()}
    return [to_json_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def format_short(value: float | None) -> str:
    """A score as people write it: `4`, `3.5`, at most two decimals."""
    return use_minus_sign(format_number(value, 2).removesuffix("0").removesuffix(".0"))


def score_tone(share: float | None) -> str:
    """Good, middling or bad by its place on the scale, as a class; as in verdict-view.js."""
    if share is None:
        return "none"
    return "good" if share >= 0.7 else "fair" if share >= 0.5 else "bad"


def add_error_handlers(app: FastAPI) -> None:
    """Whatever goes wrong by a person's doing is answered with its sentence; our own mistakes stay what they are."""

    @app.exception_handler(NotFound)
    async def _not_there(request: Request, error: NotFound) -> Response:
        return _error_response(request, 404, str(error))

    @app.exception_handler(UsageError)
    async def _usage(request: Request, error: UsageError) -> Response:
        return _error_response(request, 503 if isinstance(error, LedgerError) else 400, str(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        wrong = [f"{'.'.join(str(part) for part in one['loc'][1:])}: {one['msg']}" for one in error.errors()]
        return _error_response(request, 422, "This address cannot be read. " + "; ".join(wrong))

    @app.exception_handler(Exception)
    async def _ours(request: Request, error: Exception) -> Response:
        # This one is sent from outside the gate, which would else put the headers on; the traceback goes to the log.
        answer = _error_response(request, 500, "Internal error; see the terminal that runs Beholder.")
        answer.headers.update(HEADERS)
        return answer

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        sentence = "There is no such page." if error.status_code == 404 else str(error.detail)
        return _error_response(request, error.status_code, sentence)


def _error_response(request: Request, status: int, sentence: str) -> Response:
    # Whoever looks at a ledger through us need not know where on the disk it lies: "the ledger PATH" is this ledger.
    sentence = sentence.replace(f"he ledger {request.app.state.ledger.place!r}", "his ledger")
    if request.url.path.startswith(API):
        return JSONResponse({"error": escape_hidden(sentence)}, status)
    return render_page(
        request, "error.html", status, title="Not found" if status == 404 else "That did not work", why=sentence
    )


def _choice_pair(value: str, told: str = "") -> tuple[str, str]:
    """A value of a choice, and how it is shown: as it is, or by the filter `state` or `flag`."""
    return value, {"state": humanize_state, "flag": flag_title}[told](value) if told else value


def _json(value: object) -> Markup:
    return Markup(script_json(to_json_values(escape_hidden_values(value))))
