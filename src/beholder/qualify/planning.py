"""What all sheets of an exam together would ask and cost, without a call; and what was paid for them already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from msgspec import structs

from beholder.ledger import Ledger
from beholder.qualify.sitting import Sheet
from beholder.runs.plan import JudgePlan, plan
from beholder.runs.running import checked_cases, fingerprint


async def planned(sheets: Sequence[Sheet], ledger: Ledger | None, *, fresh: bool = False) -> JudgePlan:
    """The calls of the one judge of all sheets. A paper that is asked twice has its first answer from the first sheet,
    where it is counted; but not in a `fresh` sitting, which takes no answer from the ledger."""
    whole = JudgePlan(sheets[0].suite.judges[0].judge)
    for sheet in sheets:
        checked = checked_cases(sheet.suite)
        whole = _added(whole, (await plan(sheet.suite, checked, ledger)).judges[0], 1)
        if sheet.suite.samples > 1 and not fresh:
            first = structs.replace(sheet.suite, samples=1)
            whole = _added(whole, (await plan(first, checked, ledger)).judges[0], -1)
    return whole


def spent(sheets: Sequence[Sheet], ledger: Ledger) -> Decimal:
    """What the runs have cost that these sheets would go on with, as far as it is known."""
    found = [ledger.find(fingerprint(sheet.suite, checked_cases(sheet.suite))) for sheet in sheets]
    return sum((one.spent_usd or Decimal(0) for one in found if one), Decimal(0))


def _added(whole: JudgePlan, more: JudgePlan, sign: int) -> JudgePlan:
    def money(a: Decimal | None, b: Decimal | None) -> Decimal | None:
        return None if a is None or b is None else a + sign * b

    return replace(
        whole,
        calls=whole.calls + sign * more.calls,
        answered=whole.answered + sign * more.answered,
        text_tokens=whole.text_tokens + sign * more.text_tokens,
        image_tokens=whole.image_tokens + sign * more.image_tokens,
        output_low=whole.output_low + sign * more.output_low,
        output_high=whole.output_high + sign * more.output_high,
        money_low=money(whole.money_low, more.money_low),
        money_high=money(whole.money_high, more.money_high),
        rule=more.rule or whole.rule,
    )
