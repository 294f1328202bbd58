"""What a call may cost is reserved before it is made; the budget is never overdrawn, whatever runs at once."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder import Answer, Finish, Outcome, OverBudget, Rubric, ScriptedJudge, Verdict
from beholder.errors import Unreachable
from beholder.judges.conversation import Conversation
from beholder.rubrics.brief import Brief
from beholder.runs.limits import Budget, CallBudget
from beholder.verdicts.score import VerdictHeader

BRIEF = Brief("r", "1", None, "", (), None, "d", "l")
HEAD = VerdictHeader("c1", Rubric.load("restyle"), "scripted")


async def talk(judge: ScriptedJudge, budget: Budget, most: Decimal) -> Verdict:
    """A conversation in which every call may cost `most`; a refusal ends it after one."""
    conversation = Conversation(judge, BRIEF, HEAD, reserve=CallBudget(budget, lambda *_: (most, 100)).reserve)
    await conversation.run()
    return conversation.verdict


@given(
    st.lists(st.tuples(st.decimals(0, 5, places=3), st.decimals(0, 1, places=2)), max_size=40),
    st.decimals(0, 20, places=2),
)
async def test_reservations_never_exceed_the_limit(calls: list[tuple[Decimal, Decimal]], limit: Decimal) -> None:
    budget = Budget(limit)
    for amount, share in calls:
        try:
            await budget.reserve(amount)
        except OverBudget:
            continue
        assert budget.spent + budget.reserved <= limit
        budget.settle(amount, amount * share)
    assert budget.reserved == 0
    assert budget.spent <= limit


async def test_calls_that_run_at_once_reserve_together() -> None:
    budget = Budget(Decimal(10))
    judge = ScriptedJudge(Answer("x", finish=Finish.REFUSED, cost_usd=Decimal(1)))

    async def ask() -> bool:
        return (await talk(judge, budget, Decimal(4))).outcome is not Outcome.OVER_BUDGET

    assert all(await asyncio.gather(ask(), ask()))
    assert budget.spent == 2
    asked = [await ask() for _ in range(9)]
    assert asked.count(True) == 5  # from $2 spent, $4 must be free each time: at 2, 3, 4, 5 and 6
    assert budget.spent <= 10


async def test_an_unknown_cost_counts_in_full_and_no_answer_as_free() -> None:
    budget = Budget(Decimal(10))
    await talk(ScriptedJudge(Answer("x", finish=Finish.REFUSED)), budget, Decimal(3))
    assert budget.spent == 3
    gone = await talk(ScriptedJudge(Unreachable("gone")), budget, Decimal(3))
    assert gone.outcome is Outcome.UNREACHABLE
    assert budget.spent == 3
    assert budget.reserved == 0


async def test_a_budget_of_nothing_allows_nothing_that_costs() -> None:
    budget = Budget(Decimal(0))
    await budget.reserve(Decimal(0))
    with pytest.raises(OverBudget, match="is left"):
        await budget.reserve(Decimal("0.01"))


async def test_a_shared_budget_fetches_what_it_needs_and_no_more_than_there_is() -> None:
    purse = Decimal(10)

    async def more(least: Decimal) -> Decimal:
        nonlocal purse
        await asyncio.sleep(0)
        given = min(purse, 2 * least)
        if given < least:
            return Decimal(0)
        purse -= given
        return given

    budgets = [Budget(Decimal(10)), Budget(Decimal(10))]
    for budget in budgets:
        budget.share_between_processes(more)
    got = 0

    async def spend(budget: Budget) -> None:
        nonlocal got
        try:
            await budget.reserve(Decimal(1))
        except OverBudget:
            return
        got += 1
        budget.settle(Decimal(1), Decimal(1))

    await asyncio.gather(*(spend(budget) for budget in budgets for _ in range(9)))
    assert got == 10
    assert sum(budget.spent for budget in budgets) == 10


async def test_what_is_given_back_while_more_is_asked_for_is_used() -> None:
    budget = Budget(Decimal(4))
    purse, asked = Decimal(4), list[Decimal]()

    async def grant(least: Decimal) -> Decimal:
        nonlocal purse
        asked.append(least)
        given = least if least <= purse else Decimal(0)
        purse -= given
        if not given:  # the only other call ends before the answer comes, and its verdict is written
            budget.end_call(Decimal(3), Decimal(1))
            purse += budget.return_unused()
        return given

    budget.share_between_processes(grant)
    await budget.begin_call(Decimal(3))
    await budget.begin_call(Decimal(3))
    assert budget.limit == 4
    assert budget.spent == 1
    assert budget.reserved == 3
    assert [*map(int, asked)] == [3, 3, 3]
    with pytest.raises(OverBudget):
        await Budget(Decimal(1)).begin_call(Decimal(3))


async def test_calls_wait_for_what_others_do_not_come_to() -> None:
    budget = Budget(Decimal(10))
    judge = ScriptedJudge(*[Answer("x", finish=Finish.REFUSED, cost_usd=Decimal("0.1"))] * 80)

    async def ask() -> bool:
        return (await talk(judge, budget, Decimal(4))).outcome is not Outcome.OVER_BUDGET

    assert (await asyncio.gather(*(ask() for _ in range(80)))).count(True) == 61  # until less than $4 is left
    assert budget.spent == Decimal("6.1")
    assert budget.reserved == 0


async def test_who_gives_up_waiting_for_money_keeps_nobody_from_it() -> None:
    budget = Budget(Decimal(4))
    await budget.begin_call(Decimal(4))
    first, second = (asyncio.create_task(budget.begin_call(Decimal(4))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    budget.end_call(Decimal(4), Decimal(0))
    await asyncio.wait_for(second, 1)
    with pytest.raises(asyncio.CancelledError):
        await first
    assert budget.reserved == 4
