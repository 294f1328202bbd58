"""Forms that change something (stars, comments, saved views; rename, tag and delete a run), and runs as files.

Each form does what a method of `Run` does, and leads back to its page. `security` lets through only what a page of this
app has sent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.background import BackgroundTask

from beholder.errors import LedgerError, UsageError
from beholder.ledger.export import csv_lines
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.html_report import write_report
from beholder.runs.ledger_access import delete_run
from beholder.web.background import MANY_VERDICTS, run_in_process
from beholder.web.responses import FormDep, LedgerDep, NotFound, find_run, make_url

router = APIRouter()

CHUNK_LINES = 2000


@router.post("/runs/{run}/star")
def star_case(ledger: LedgerDep, run: str, sent: FormDep) -> Response:
    """Give the case that the form names a star, or take it away."""
    record = find_run(ledger, run)
    case = _sent_case(ledger, record, sent)
    (ledger.star if sent.get("star") == "yes" else ledger.unstar)(record.id, case)
    return _to_case(record, sent)


@router.post("/runs/{run}/comment")
def comment_case(ledger: LedgerDep, run: str, sent: FormDep) -> Response:
    """Write a comment on the case that the form names, or delete the one that it names."""
    record = find_run(ledger, run)
    case = _sent_case(ledger, record, sent)
    if gone := sent.get("delete"):
        with _as_usage():
            ledger.delete_comment(record.id, gone)
    else:
        ledger.comment(record.id, case, sent.get("text", ""), sent.get("author", ""))
    return _to_case(record, sent)


@router.post("/runs/{run}/view")
def save_view(ledger: LedgerDep, run: str, sent: FormDep) -> Response:
    """Save the filters of a list under a name, or delete the saved view that the form names."""
    record, query = find_run(ledger, run), _clean_query(sent)
    if gone := sent.get("delete"):
        ledger.delete_view(record.id, gone)
    else:
        ledger.save_view(record.id, sent.get("name", ""), query)
    return _redirect(f"/runs/{record.id}/cases", query)


@router.post("/runs/{run}/rename")
def rename_run(ledger: LedgerDep, run: str, sent: FormDep) -> Response:
    record = find_run(ledger, run)
    with _as_usage():
        ledger.rename(record.id, sent.get("name", "").strip())
    return _redirect(f"/runs/{record.id}")


@router.post("/runs/{run}/tag")
def tag_run(ledger: LedgerDep, run: str, sent: FormDep) -> Response:
    """Give a run the tags of the form, which are separated by commas, and no others."""
    record = find_run(ledger, run)
    tags = [tag for part in sent.get("tags", "").split(",") if (tag := part.strip())]
    ledger.tag(record.id, *tags, remove=[tag for tag in record.tags if tag not in tags])
    return _redirect(f"/runs/{record.id}")


@router.post("/runs/{run}/delete")
def delete_run_view(ledger: LedgerDep, run: str, sent: FormDep) -> Response:
    """Delete a run, if the form says that this is meant."""
    record = find_run(ledger, run)
    if sent.get("sure") != "yes":
        raise UsageError("The run was not deleted: tick the box beside the button, for there is no way back.")
    delete_run(ledger, record.id)
    return _redirect("/")


@router.get("/runs/{run}/report.html", response_class=Response)
def download_report(
    ledger: LedgerDep, run: str, worst: Annotated[int | None, Query(ge=1, le=1_000_000)] = None
) -> Response:
    """The report of a run, as `beholder report` writes it."""
    record = find_run(ledger, run)
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory()), "report.html")
        work = partial(_write_report_file, ledger.address, record, file, worst)
        if record.total > MANY_VERDICTS:
            run_in_process(work)
        else:
            work()
        remove = BackgroundTask(stack.pop_all().close)  # when it was sent
    return FileResponse(file, media_type="text/html; charset=utf-8", filename=f"{record.id}.html", background=remove)


def _write_report_file(address: str, record: RunRecord, file: Path, worst: int | None) -> None:
    """Write a report; takes an address, which can be sent to another process."""
    with Ledger.open(address, read_only=True) as ledger, file.open("wb") as out:
        write_report(ledger, record, out, worst=worst)


@router.get("/runs/{run}/verdicts.csv", response_class=Response)
def download_csv(ledger: LedgerDep, run: str) -> Response:
    """The verdicts of a run, as `beholder export` writes them."""
    record = find_run(ledger, run)
    lines = iter(csv_lines(lambda: ledger.stored_verdicts(record.id)))
    first = b"".join(islice(lines, CHUNK_LINES))  # what cannot be read is found before the response has begun
    rest = iter(lambda: b"".join(islice(lines, CHUNK_LINES)), b"")
    headers = {"Content-Disposition": f'attachment; filename="{quote(record.id, safe=".")}.csv"'}
    return StreamingResponse(chain([first], rest), media_type="text/csv; charset=utf-8", headers=headers)


@contextmanager
def _as_usage() -> Iterator[None]:
    """What the ledger refuses in this context is the visitor's to change, and no failure of the server."""
    try:
        yield
    except LedgerError as error:
        raise UsageError(str(error)) from None


def _sent_case(ledger: Ledger, record: RunRecord, sent: Mapping[str, str]) -> str:
    case = sent.get("case", "")
    try:
        return ledger.case(record.id, case).id
    except LedgerError as error:
        raise NotFound(str(error)) from None


def _clean_query(sent: Mapping[str, str]) -> str:
    """Return the query of an address that a form carries along, parsed and written again."""
    try:
        return urlencode(parse_qsl(sent.get("query", ""), max_num_fields=100))
    except ValueError:
        raise UsageError("What was sent is not a form of this app.") from None


def _to_case(record: RunRecord, sent: Mapping[str, str]) -> Response:
    return _redirect(f"/runs/{record.id}/case", _clean_query(sent) or urlencode({"id": sent.get("case", "")}))


def _redirect(path: str, query: str = "") -> Response:
    """Redirect to a page of this app."""
    return RedirectResponse(make_url(path) + (f"?{query}" if query else ""), 303)
