"""A suite, run: checked, found again in the ledger or begun, executed, summed up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from beholder.cases.checking import Checked, check, good
from beholder.errors import CaseError, LedgerError, LedgerGone, UsageError
from beholder.judges.model import TIERS, is_elsewhere, judge_from
from beholder.judges.prices import MILLION, Price, price_of
from beholder.judges.protocol import INSTRUMENTS, Judge, Most, Turn
from beholder.ledger import Ledger
from beholder.ledger.model import FINISHED, INTERRUPTED, REVIEW, RUNNING, Progress, RunRecord
from beholder.ledger.redacting import redacted
from beholder.rubrics.brief import Brief
from beholder.runs.budget import BudgetedJudge
from beholder.runs.clerk import PATIENCE_S, Clerk
from beholder.runs.engine import execute
from beholder.runs.gate import Gate
from beholder.runs.pictures import Pictures
from beholder.runs.sharing import Limits
from beholder.runs.suite import JudgeEntry, Suite
from beholder.runs.tokens import estimate, money, text_tokens
from beholder.runs.work import Watch, Work
from beholder.verdicts.model import Outcome

TEXT_MARGIN = 4  # a tokenizer may count a quarter more than our rule of thumb


def checked_cases(suite: Suite, *, skip_bad: bool = False) -> Checked:
    """A look at all cases. Raises `CaseError` that lists what is wrong, unless bad ones may be left out."""
    checked = _checked_before(suite) or check(suite.rows(), allow_remote=suite.allow_remote)
    if checked.problem_count and not skip_bad:
        more = checked.problem_count - len(checked.problems)
        listed = "\n".join(checked.problems) + (f"\n… and {more} more" if more else "")
        things = "1 thing is" if checked.problem_count == 1 else f"{checked.problem_count} things are"
        raise CaseError(f"{things} wrong with the cases (--skip-bad goes on without them):\n{listed}")
    if not checked.count:
        raise CaseError("There is no case to judge.")
    return checked


def _checked_before(suite: Suite) -> Checked | None:
    """The cases of a run that was begun and has not ended, if they are still the same, which their images' names, sizes
    and times of change tell: then all was well with them, and a hundred thousand files need not be opened again."""
    try:
        with Ledger.open(suite.ledger_place(), read_only=True) as ledger:
            runs = [run for run in ledger.runs() if not run.fingerprint.startswith(REVIEW)]
    except LedgerGone:
        raise
    except LedgerError:  # there is none yet, or whoever opens it next says what is wrong
        return None
    open_ = [run for run in runs if run.state != FINISHED and not run.skipped]
    known = {run.fingerprint for run in open_ if not _unlike(suite, run, "cases", "pairs", "limit", "only", "shuffle")}
    checked = check(suite.rows(), allow_remote=suite.allow_remote, opened=False) if known else None
    return checked if checked and not checked.problem_count and fingerprint(suite, checked) in known else None


def record_for(suite: Suite, ledger: Ledger, checked: Checked, *, fresh: bool) -> tuple[RunRecord, bool]:
    """The run to go on with, and whether it is new.

    Two runs are the same when suite and cases are: rubric, judges, prompt, ids, texts, and image files by path, size
    and time of change. What only says how fast or how far to go (concurrency, limits, budget, thresholds) may differ.
    A `fresh` run is gone on with as such until it is finished.
    """
    now = datetime.now(UTC)
    run = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=suite.name,
        fingerprint=fingerprint(suite, checked),
        state=RUNNING,
        created=now,
        updated=now,
        total=checked.count * len(suite.rubrics()),
        suite=suite.public_dict() | ({"fresh": True} if fresh else {}),
        rubrics=tuple(msgspec.to_builtins(rubric) for rubric in suite.rubrics()),
        prompt=suite.prompt_text(),
        versions={"beholder": _version(), "python": platform.python_version(), "platform": platform.platform()},
        tags=tuple(suite.tags),
        skipped=len(checked.bad),
    )
    return ledger.find_or_start(run, fresh=fresh)


def named(suite: Suite, ledger: Ledger, checked: Checked, run: str) -> RunRecord:
    """A run to go on with although its files lie elsewhere or were touched since, as on another machine: what it asked
    whom must be the same. Raises `UsageError` where it is not."""
    record = ledger.run(run)
    wrong = _unlike(suite, record)
    if record.total != checked.count * len(suite.rubrics()):
        wrong.append("number of cases")
    if wrong:
        raise UsageError(f"The run {record.id} is another one: its {', '.join(wrong)} differ; leave --run out.")
    return record


def _unlike(suite: Suite, record: RunRecord, *more: str) -> list[str]:
    """In what a run asked something else, or somebody else, than the suite does."""
    mine = redacted(suite.public_dict())
    assert isinstance(mine, dict)
    keys = ("judges", "samples", "setting", "prompt", *more)
    rubrics = [redacted(msgspec.to_builtins(rubric)) for rubric in suite.rubrics()]
    return [key for key in keys if record.suite.get(key) != mine.get(key)] + (
        ["rubric"] if [*record.rubrics] != rubrics else []
    )


def seated(suite: Suite, limits: Limits) -> list[Judge]:
    """The judges of a suite, each behind its gate (which `limits` then has), and behind the budget if there is one.
    Raises `SetupError`."""
    return [_seated(entry, suite, limits) for entry in suite.judges]


async def run_suite(
    suite: Suite,
    ledger: Ledger,
    run: RunRecord,
    checked: Checked,
    judges: Sequence[Judge],
    limits: Limits,
    retry: frozenset[Outcome],
    watch: Watch,
    stop: asyncio.Event,
) -> str:
    """Executes the run and returns its state: `finished`, or `interrupted` when `stop` was set or it was cancelled.

    `limits` are those that the judges were seated with. A run that other processes go on with stays `running`.
    """
    pictures = Pictures(allow_remote=suite.allow_remote)
    work = Work(
        run_id=run.id,
        composers=suite.composers(),
        judges=tuple(judges),
        samples=suite.samples,
        concurrency=suite.concurrency,
        timeout_s=suite.limits.total_timeout_s,
        retry=retry,
        recall=not run.suite.get("fresh"),
        thumbnails=suite.thumbnails,
        audit=suite.audit,
        calibration=suite.calibration_map(),
        lease_s=suite.limits.lease_s,
    )
    state = INTERRUPTED
    ledger.update(run.id, state=RUNNING)
    try:
        if suite.engine == "ray":
            from beholder.runs.ray import execute_on_ray

            await execute_on_ray(work, suite, checked, ledger, watch, stop, limits, address=suite.address)
        else:
            await execute(work, lambda: good(suite.rows(), checked), ledger, pictures, watch, stop, limits)
        if not stop.is_set() or ledger.progress(run.id).get(run.id, Progress()).done == run.total:
            state = FINISHED
        return state
    finally:
        pictures.close()
        for judge in judges:
            await judge.aclose()
        await _end(ledger, run.id, state)


async def _end(ledger: Ledger, run: str, state: str) -> None:
    """Writes down how a run ended, unless other processes go on with it. Whatever kept it from being finished matters
    more than a ledger that cannot say so."""
    finished = state == FINISHED
    clerk = Clerk(ledger, patience_s=PATIENCE_S if finished else 0)
    try:
        if finished or not await clerk.do(_others, ledger, run):
            await clerk.do(lambda: ledger.update(run, state=state))
    except LedgerError:
        if finished:
            raise
    finally:
        clerk.close()


def _others(ledger: Ledger, run: str) -> int:
    """How many other processes are at work on the run."""
    from beholder.ledger.sharing import others

    with ledger.reading() as connection:
        return others(connection, ledger.number(connection, run))


def require_prices(suite: Suite) -> None:
    """Raises `UsageError` where a budget is set and nobody knows what a judge costs."""
    for entry in suite.judges:
        if suite.budget is not None and price_for(entry) is None:
            raise UsageError(
                f"Nobody knows what {entry.judge} costs, so a budget cannot be kept: give its price in the suite, "
                "price: {input: 1.25, output: 10}, in US dollars per million tokens."
            )


def price_for(entry: JudgeEntry, *, batch: bool = False) -> Price | None:
    """What a judge costs, live or in a batch: by the suite, else by the price list; `None` where nobody knows."""
    if entry.judge == INSTRUMENTS:
        return Price(Decimal(0), Decimal(0))
    provider, _, model = entry.judge.partition(":")
    if TIERS & entry.params.keys():  # another tier has another price
        return price_of(provider, model, base_url_is_own=True, given=entry.given_price(), batch=batch)
    elsewhere = is_elsewhere(entry.judge, entry.base_url, entry.base_urls)
    return price_of(provider, model, base_url_is_own=elsewhere, given=entry.given_price(), batch=batch)


def _seated(entry: JudgeEntry, suite: Suite, limits: Limits) -> Judge:
    gate = Gate(
        suite.concurrency,
        requests_per_minute=suite.limits.requests_per_minute,
        tokens_per_minute=suite.limits.tokens_per_minute,
    )
    judge = judge_from(
        entry.judge,
        base_url=entry.base_url,
        base_urls=entry.base_urls,
        key_variable=entry.key_variable,
        params={**suite.image_params(), **entry.params},
        timeout_s=suite.limits.timeout_s,
        gate=gate,
        price=entry.given_price(),
    )
    limits.gates.append(gate)
    price = price_for(entry)
    if limits.budget.limit is None or price is None or entry.judge == INSTRUMENTS:
        return judge
    return BudgetedJudge(judge, limits.budget, most_for(entry, price, judge.sizing.detail))


def most_for(entry: JudgeEntry, price: Price, detail: str | None) -> Most:
    """What one call may cost at most, with the limit of tokens that makes it true. Text is estimated with a margin."""
    provider, _, model = entry.judge.partition(":")

    def most(brief: Brief, earlier: Sequence[Turn], max_tokens: int | None) -> tuple[Decimal, int | None]:
        limit = max_tokens or entry.max_tokens()
        if limit is None and provider != "anthropic":  # whose wire sends the brief's own limit
            limit = estimate(provider, model, brief, detail).output_high
        expected = estimate(provider, model, brief, detail, max_tokens=limit)
        said = sum(text_tokens(provider, model, turn.answer + turn.reply) for turn in earlier)
        unsure = expected.text_tokens // TEXT_MARGIN + said
        thoughts = entry.params.get("thinking.budget_tokens")
        more = price.input * unsure + price.output * (thoughts if isinstance(thoughts, int) else 0)
        return money(expected, price)[1] + more / MILLION, limit

    return most


def fingerprint(suite: Suite, checked: Checked) -> str:
    """What makes two runs the same; see `record_for`."""
    parts = [
        checked.fingerprint,
        suite.settings_that_matter(),
        [msgspec.to_builtins(rubric) for rubric in suite.rubrics()],
        suite.prompt_text(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _version() -> str:
    from beholder import __version__

    return __version__
