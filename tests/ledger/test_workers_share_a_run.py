"""Several workers on one run: none judges what another holds, a dead one's leases lapse, money and pace hold for all of
them together."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from support.ledger import entry, run_record, unscored, verdict

from beholder.ledger import schema
from beholder.ledger.leases import OUTAGE_PATIENCE_S, grant_allowance, record_heartbeat, remove_worker
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import ClaimResult, HeartbeatReply, VerdictKey, WriteToken
from beholder.verdicts.verdict import Outcome

LONG_S, GONE_S = 600.0, -OUTAGE_PATIENCE_S - 1
RUBRIC = verdict(0).rubric
FINAL = ("scored", "refused", "filtered")


def alive(ledger: Ledger, holder: str, lease_s: float = LONG_S) -> float:
    return ledger.heartbeat("r1", holder, lease_s).part


def claimed(ledger: Ledger, holder: str, *numbers: int, final: tuple[str, ...] = FINAL) -> ClaimResult:
    return ledger.claim("r1", holder, keys(*numbers), final, LONG_S)


def granted(ledger: Ledger, holder: str, limit: str, least: str) -> Decimal:
    return ledger.grant("r1", holder, Decimal(limit), Decimal(least))


def gone(ledger: Ledger, holder: str) -> None:
    ledger.leave("r1", holder)


def time_passes(ledger: Ledger, seconds: float) -> None:
    """As if all that was written had been written so much earlier."""
    with ledger._writing() as connection:
        columns = schema.workers.c
        earlier = {"since": columns.since - seconds, "until": columns.until - seconds}
        connection.execute(update(schema.workers).values(**earlier))


def keys(*numbers: int) -> list[VerdictKey]:
    return [(verdict(number).case, RUBRIC) for number in numbers]


def test_what_one_holds_no_other_gets(ledger: Ledger) -> None:
    alive(ledger, "a")
    alive(ledger, "b")
    assert claimed(ledger, "a", 0, 1) == ClaimResult(frozenset(keys(0, 1)), frozenset())
    assert claimed(ledger, "b", 0, 1, 2) == ClaimResult(frozenset(keys(2)), frozenset(keys(0, 1)))
    assert claimed(ledger, "a", 0) == ClaimResult(frozenset(keys(0)), frozenset())  # asked again, it is still its own


def test_the_leases_of_a_worker_that_is_gone_lapse(ledger: Ledger) -> None:
    alive(ledger, "b")
    alive(ledger, "a")
    claimed(ledger, "a", 0, 1)
    assert claimed(ledger, "b", 0, 1).held == frozenset(keys(0, 1))
    alive(ledger, "a", GONE_S)
    assert claimed(ledger, "b", 0, 1).mine == frozenset(keys(0, 1))


def test_an_outage_takes_no_case_from_those_that_could_send_no_heartbeat(ledger: Ledger) -> None:
    for holder in ("back", "slow", "dead"):
        alive(ledger, holder)
    claimed(ledger, "slow", 0)
    claimed(ledger, "dead", 1)
    alive(ledger, "dead", GONE_S)  # before the outage
    time_passes(ledger, LONG_S + 100)
    assert claimed(ledger, "back", 0, 1) == ClaimResult(frozenset(keys(1)), frozenset(keys(0)))
    alive(ledger, "back")
    assert claimed(ledger, "back", 0).held == frozenset(keys(0))
    for _ in range(5):  # now it does not come back, and the server is there
        time_passes(ledger, LONG_S / 4)
        alive(ledger, "back")
    assert claimed(ledger, "back", 0).mine == frozenset(keys(0))


def test_who_joins_after_an_outage_takes_no_case_of_those_that_are_not_back_yet(ledger: Ledger) -> None:
    for number, holder in enumerate(("slow", "dead")):
        alive(ledger, holder)
        claimed(ledger, holder, number)
    time_passes(ledger, LONG_S + OUTAGE_PATIENCE_S / 2)
    alive(ledger, "new")
    assert claimed(ledger, "new", 0, 1, 2) == ClaimResult(frozenset(keys(2)), frozenset(keys(0, 1)))
    for _ in range(5):
        time_passes(ledger, LONG_S / 4)
        alive(ledger, "new")
        alive(ledger, "slow")
    assert claimed(ledger, "new", 0, 1) == ClaimResult(frozenset(keys(1)), frozenset(keys(0)))


def test_who_joins_does_not_wait_for_those_that_must_have_given_up(ledger: Ledger) -> None:
    alive(ledger, "dead")
    claimed(ledger, "dead", 0)
    time_passes(ledger, LONG_S + OUTAGE_PATIENCE_S + 1)
    alive(ledger, "new")
    assert claimed(ledger, "new", 0).mine == frozenset(keys(0))


def test_a_worker_whose_heartbeats_are_always_late_does_not_keep_the_leases_of_a_dead_one(ledger: Ledger) -> None:
    for holder in ("late", "later", "dead"):
        alive(ledger, holder)
    claimed(ledger, "dead", 0)
    for _ in range(12):  # each of them 0.7 leases apart
        for holder in ("late", "later"):
            time_passes(ledger, LONG_S * 0.35)
            alive(ledger, holder)
    assert sorted(ledger.active_workers("r1")) == ["late", "later"]
    assert claimed(ledger, "late", 0).mine == frozenset(keys(0))


def test_an_outage_gives_nobody_more_than_one_lease(ledger: Ledger) -> None:
    """Here only one worker had stopped, and another one dies after its return."""
    for holder in ("stopped", "dead"):
        alive(ledger, holder)
    for _ in range(40):
        time_passes(ledger, LONG_S / 4)
        alive(ledger, "dead")
    claimed(ledger, "dead", 0)
    alive(ledger, "stopped")
    assert claimed(ledger, "stopped", 0).held == frozenset(keys(0))
    for _ in range(5):
        time_passes(ledger, LONG_S / 4)
        alive(ledger, "stopped")
    assert claimed(ledger, "stopped", 0).mine == frozenset(keys(0))


def test_a_worker_that_missed_heartbeats_does_not_just_renew_its_leases(ledger: Ledger) -> None:
    """The outage that it found would be forgotten before the leases of the others are renewed."""
    assert not ledger.renew("r1", "a", LONG_S)
    for holder in ("a", "b"):
        alive(ledger, holder)
    time_passes(ledger, LONG_S / 4)
    assert ledger.renew("r1", "a", LONG_S)
    time_passes(ledger, LONG_S * 0.9)
    assert ledger.active_workers("r1") == ["a"]
    assert not ledger.renew("r1", "a", LONG_S)
    alive(ledger, "a")
    assert sorted(ledger.active_workers("r1")) == ["a", "b"]


def test_who_leaves_holds_nothing(ledger: Ledger) -> None:
    alive(ledger, "b")
    alive(ledger, "a")
    claimed(ledger, "a", 0)
    gone(ledger, "a")
    assert claimed(ledger, "b", 0).mine == frozenset(keys(0))


def test_what_has_a_verdict_is_nobodys(ledger: Ledger) -> None:
    alive(ledger, "a")
    alive(ledger, "b")
    claimed(ledger, "a", 0, 1)
    ledger.write("r1", [entry(0), entry(1, of=unscored(1))], WriteToken("a", "first"))
    assert claimed(ledger, "b", 0, 1) == ClaimResult(frozenset(), frozenset())


def test_a_failure_is_not_tried_again_by_another_worker_but_by_the_next_start(ledger: Ledger) -> None:
    alive(ledger, "a")
    alive(ledger, "b")
    claimed(ledger, "a", 0)
    ledger.write("r1", [entry(0, of=unscored(0))], WriteToken("a", "first"))
    retried = ("scored",)  # as with --retry refused
    assert claimed(ledger, "b", 0, final=retried) == ClaimResult(frozenset(), frozenset())
    gone(ledger, "a")
    assert claimed(ledger, "b", 0, final=retried) == ClaimResult(frozenset(), frozenset())
    gone(ledger, "b")
    alive(ledger, "c")
    assert claimed(ledger, "c", 0, final=retried).mine == frozenset(keys(0))


def test_a_batch_that_is_written_twice_counts_once(ledger: Ledger) -> None:
    alive(ledger, "a")
    for _ in range(2):
        ledger.write("r1", [entry(0, spent_usd=Decimal("0.5"))], WriteToken("a", "first"))
    assert ledger.run("r1").spent_usd == Decimal("0.5")
    ledger.write("r1", [entry(1, spent_usd=Decimal("0.5"))], WriteToken("a", "second"))
    assert ledger.run("r1").spent_usd == 1


def test_what_a_worker_gives_back_others_get_and_only_once(ledger: Ledger) -> None:
    for holder in ("a", "b"):
        alive(ledger, holder)
    assert ledger.grant("r1", "a", Decimal(8), Decimal(8), 1) == 8
    assert granted(ledger, "b", "8", "1") == 0
    for _ in range(2):
        ledger.write("r1", [entry(0, spent_usd=Decimal(1))], WriteToken("a", "first", Decimal(3)))
    assert granted(ledger, "b", "8", "1") == 3  # 1 is spent, and 4 are still reserved for a


def test_paces_are_shared_and_never_more_than_the_whole(ledger: Ledger) -> None:
    parts = {"a": alive(ledger, "a")}
    assert parts == {"a": 1.0}
    parts["b"] = alive(ledger, "b")
    assert parts["b"] == 0  # until the first has made room
    for holder in ("a", "b", "c", "a", "b", "c"):
        parts[holder] = alive(ledger, holder)
        assert sum(parts.values()) <= 1 + 1e-9
    assert list(parts.values()) == pytest.approx([1 / 3] * 3)
    gone(ledger, "c")
    assert [alive(ledger, "a"), alive(ledger, "b")] == pytest.approx([0.5, 0.5])


def test_what_a_silent_worker_may_spend_stays_its_own(ledger: Ledger) -> None:
    alive(ledger, "b")
    alive(ledger, "a", GONE_S)
    assert granted(ledger, "a", "1", "1") == 1
    assert granted(ledger, "b", "1", "1") == 0
    gone(ledger, "b")
    alive(ledger, "c")  # the first of a new start
    assert granted(ledger, "c", "1", "0.1") == 0
    assert ledger.unsettled_usd("r1") == ledger.reserved_usd("r1") == 1
    ledger.write("r1", [entry(0, spent_usd=Decimal("0.25"))], WriteToken("a", "late", Decimal("0.75")))  # it only slept
    assert ledger.unsettled_usd("r1") == 0
    assert granted(ledger, "c", "1", "0.75") == Decimal("0.75")


def test_who_leaves_keeps_only_what_is_not_released(ledger: Ledger) -> None:
    assert granted(ledger, "alone", "5", "5") == 5  # without a heartbeat
    ledger.leave("r1", "alone", Decimal(3))
    assert ledger.reserved_usd("r1") == 2
    assert ledger.active_workers("r1") == []
    assert granted(ledger, "next", "5", "4") == 0
    assert granted(ledger, "next", "5", "3") == 3
    ledger.leave("r1", "next", Decimal(3))
    assert ledger.reserved_usd("r1") == 2


def test_a_worker_that_slept_is_told(ledger: Ledger) -> None:
    def pulse(holder: str, lease_s: float = LONG_S) -> HeartbeatReply:
        return ledger.heartbeat("r1", holder, lease_s)

    assert pulse("a", GONE_S) == HeartbeatReply(1.0, late=True, new=True)
    assert pulse("a") == HeartbeatReply(1.0, late=True, new=False)
    assert pulse("a", GONE_S) == HeartbeatReply(1.0, late=False, new=False)
    pulse("b")
    assert pulse("a").new


def test_a_verdict_that_comes_too_late_replaces_no_score(ledger: Ledger) -> None:
    alive(ledger, "b")
    alive(ledger, "a", GONE_S)
    claimed(ledger, "a", 0, 1)
    claimed(ledger, "b", 0, 1)
    ledger.write(
        "r1", [entry(0, spent_usd=Decimal(1)), entry(1, of=unscored(1), spent_usd=Decimal(0))], WriteToken("b", "first")
    )
    late = [entry(0, of=unscored(0), spent_usd=Decimal(2)), entry(1, spent_usd=Decimal(4))]
    ledger.write("r1", late, WriteToken("a", "second"))
    assert {one.case: one.scored for one in ledger.verdicts("r1")} == {verdict(0).case: True, verdict(1).case: True}
    assert ledger.run("r1").spent_usd == 7


def test_a_failure_from_before_a_start_is_tried_again_by_it(ledger: Ledger) -> None:
    alive(ledger, "a")  # and killed a moment later: it still counts as there
    claimed(ledger, "a", 0)
    ledger.write("r1", [entry(0, of=unscored(0, Outcome.INVALID))], WriteToken("a", "first"))
    alive(ledger, "b")
    assert claimed(ledger, "b", 0).mine == frozenset(keys(0))


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.decimals("0.01", "0.5", places=2), st.decimals(0, 1, places=2)), max_size=25
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(steps, st.integers(0, 10**9))
def test_together_they_never_spend_more_than_the_budget(
    ledger: Ledger, calls: list[tuple[str, Decimal, Decimal]], run: int
) -> None:
    name = f"run-{run}"
    if name not in {record.id for record in ledger.runs()}:
        ledger.start(run_record(name))
    purses = dict.fromkeys("abc", Decimal(0))
    spent = ledger.run(name).spent_usd or Decimal(0)
    limit = spent + 1
    with ledger._writing() as connection:
        number = ledger._run_number(connection, name)
        for holder in purses:
            record_heartbeat(connection, number, holder, LONG_S)
    for place, (holder, most, share) in enumerate(calls):
        if purses[holder] < most:
            with ledger._writing() as connection:
                purses[holder] += grant_allowance(connection, number, holder, limit, most - purses[holder])
        if purses[holder] < most:
            continue
        cost = most * share
        purses[holder] -= cost
        ledger.write(name, [entry(place, spent_usd=cost)], WriteToken(holder, f"{run}/{place}"))
        spent += cost
        assert spent + sum(purses.values()) <= limit
    assert ledger.run(name).spent_usd == spent
    with ledger._writing() as connection:
        for holder in purses:
            remove_worker(connection, number, holder, purses[holder])
