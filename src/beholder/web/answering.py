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
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.packing import plain_text
from beholder.reports.flag_titles import flag_title
from beholder.reports.html import templating
from beholder.reports.html.templating import state_name
from beholder.reports.html.texts import minus, plain, plain_values, script_json
from beholder.reports.numbers import shown
from beholder.web.security import HEADERS

API = "/api/"  # what answers in JSON, errors too


def _book(request: Request) -> Ledger:
    found = request.app.state.ledger
    assert isinstance(found, Ledger)
    return found


Book = Annotated[Ledger, Depends(_book)]
RunName = Annotated[str, Query(max_length=500)]


class NotThere(Exception):
    """What was asked for is not in the ledger; the sentence says what."""


def page(request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
    """A page from `templates/`, everything in it escaped. `title` and `here` (a part of the app) go into the frame."""
    return HTMLResponse(environment().get_template(template).render(**values), status)


def record_of(book: Ledger, run: str) -> RunRecord:
    """The run that an address names, as `beholder show` names it."""
    try:
        return book.run(run)
    except LedgerError as error:
        raise NotThere(str(error)) from None


@cache
def environment() -> Environment:
    made = templating.environment("beholder.web")
    made.filters |= {"json": _json, "pair": _pair, "minus": minus, "short": short}
    made.globals |= {"address": address, "tone": tone}
    return made


def address(path: str, **asked: object) -> str:
    """An address in the app. Each part of the path is made safe with its place; what is None or empty is not asked, of
    several values each."""
    values = [(name, one) for name, value in asked.items() for one in (value if isinstance(value, tuple) else (value,))]
    kept = [(name, plain_text(str(value))) for name, value in values if value is not None and value != ""]
    return quote(plain_text(path)) + (f"?{urlencode(kept)}" if kept else "")


def json_values(value: object) -> object:
    """JSON values that any reader takes: halves of surrogate pairs written out, and numbers that JSON has no word for
    as texts. Not made plain for people to read: who asks for JSON wants names as they are."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {plain_text(str(key)): json_values(inner) for key, inner in value.items()}
    return [json_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def short(value: float | None) -> str:
    """A score as people write it: `4`, `3.5`, at most two decimals."""
    return minus(shown(value, 2).removesuffix("0").removesuffix(".0"))


def tone(share: float | None) -> str:
    """Good, middling or bad by its place on the scale, as a class; as in verdict-view.js."""
    if share is None:
        return "none"
    return "good" if share >= 0.7 else "fair" if share >= 0.5 else "bad"


def tell_errors(app: FastAPI) -> None:
    """Whatever goes wrong by a person's doing is answered with its sentence; our own mistakes stay what they are."""

    @app.exception_handler(NotThere)
    async def _not_there(request: Request, error: NotThere) -> Response:
        return _told(request, 404, str(error))

    @app.exception_handler(UsageError)
    async def _usage(request: Request, error: UsageError) -> Response:
        return _told(request, 503 if isinstance(error, LedgerError) else 400, str(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        wrong = [f"{'.'.join(str(part) for part in one['loc'][1:])}: {one['msg']}" for one in error.errors()]
        return _told(request, 422, "This address cannot be read. " + "; ".join(wrong))

    @app.exception_handler(Exception)
    async def _ours(request: Request, error: Exception) -> Response:
        # This one is sent from outside the gate, which would else put the headers on; the traceback goes to the log.
        answer = _told(request, 500, "This is a mistake of ours; the window in which Beholder runs says more.")
        answer.headers.update(HEADERS)
        return answer

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        sentence = "There is no such page." if error.status_code == 404 else str(error.detail)
        return _told(request, error.status_code, sentence)


def _told(request: Request, status: int, sentence: str) -> Response:
    # Whoever looks at a ledger through us need not know where on the disk it lies: "the ledger PATH" is this ledger.
    sentence = sentence.replace(f"he ledger {request.app.state.ledger.place!r}", "his ledger")
    if request.url.path.startswith(API):
        return JSONResponse({"error": plain(sentence)}, status)
    return page(
        request, "error.html", status, title="Not found" if status == 404 else "That did not work", why=sentence
    )


def _pair(value: str, told: str = "") -> tuple[str, str]:
    """A value of a choice, and how it is shown: as it is, or by the filter `state` or `flag`."""
    return value, {"state": state_name, "flag": flag_title}[told](value) if told else value


def _json(value: object) -> Markup:
    return Markup(script_json(json_values(plain_values(value))))
