"""What reward functions have in common: one verdict for each output of a batch, asked at the same time."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal

from beholder.api.arguments import check_session_alone
from beholder.api.options import Judges, Options, OptionsLike, RubricLike, SessionSetup, make_case
from beholder.api.session import Session
from beholder.cases.case import Case
from beholder.errors import CaseError, UsageError
from beholder.integrations.shared import criterion_share
from beholder.verdicts.verdict import Verdict

_log = logging.getLogger(__name__)


class RewardJudge:
    """Judges the outputs of a batch by one rubric, in a session of its own or the caller's.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        judge: Who judges, by default the instruments; `ledger`, `name`, `budget`, `samples` and `options` as in
            `Session`.
        criterion: The reward is the score of this criterion, brought to 0–1, and not that of the verdict.
        session: In place of `judge` and what goes with it.

    Raises:
        UsageError: The rubric has no such criterion, is several, `session` is given with what it replaces, or the
            processes of a training cannot keep the budget together: it, or that of `session`, lacks a ledger or a name,
            or the name is that of a run with other judges, samples or options.
    """

    def __init__(
        self,
        rubric: RubricLike,
        judge: Judges,
        *,
        criterion: str | None,
        session: Session | None,
        ledger: str | None,
        name: str | None,
        budget: float | Decimal | None,
        samples: int,
        options: OptionsLike,
    ) -> None:
        self.rubric = Options.of(options).load_one_rubric(rubric, criterion)
        check_session_alone(session, judge, ledger, name, budget, samples, options)
        sole = budget is not None
        own = SessionSetup(judge, ledger, name, budget, samples=samples, options=Options.of(options), sole=sole)
        setup = own if session is None else session._setup
        processes = os.environ.get("WORLD_SIZE", "")  # as torchrun and accelerate say
        if setup.budget is not None and not (setup.ledger and setup.name) and processes not in ("", "1"):
            raise UsageError(
                f"A budget needs a ledger and a name where several processes train (WORLD_SIZE is {processes}): each "
                "would have the whole budget, and only those that share a run keep one."
            )
        self.criterion = criterion
        self.session = session or Session._of(own)
        self._texts = [one.name for one in self.rubric.fields if one.required and not one.may_be_empty]

    def judge(self, rows: Sequence[Mapping[str, object]]) -> list[float | None]:
        """Return the reward of each row, from 0 to 1; `None` where there is no score.

        An output that cannot be judged at all (an array with NaN in it, an empty text unless the rubric allows one) has
        none either, and that is logged.

        Raises:
            UsageError: No row can be judged, and not for want of words; or an input is missing or unknown.
        """
        made = [None if self._has_blank(row) else self._make_case(row) for row in rows]
        failures = [one for one in made if isinstance(one, CaseError)]
        for failure in failures:
            _log.warning("beholder: an output has no reward: %s", failure)
        if blank := made.count(None):
            _log.warning("beholder: %d of %d outputs have no reward: their text is empty", blank, len(made))
        cases = {one.id: one for one in made if isinstance(one, Case)}  # of the same content one
        judged = self.session.judge_many(self.rubric, list(cases.values()), on_bad_case="skip")
        verdicts = {verdict.case: verdict for verdict in judged}
        if not verdicts and failures:
            raise failures[0]
        if not verdicts and cases:
            list(self.session.judge_many(self.rubric, list(cases.values())))  # raises what is wrong with the first
        return [self._read_reward(verdicts.get(one.id)) if isinstance(one, Case) else None for one in made]

    def _has_blank(self, row: Mapping[str, object]) -> bool:
        return any(isinstance(text := row.get(name), str) and not text.strip() for name in self._texts)

    def _make_case(self, row: Mapping[str, object]) -> Case | CaseError:
        try:
            return make_case([self.rubric], None, row)
        except CaseError as error:
            return error

    def _read_reward(self, verdict: Verdict | None) -> float | None:
        if verdict is None or self.criterion is None:
            return None if verdict is None else verdict.score
        result = verdict.criteria.get(self.criterion)
        return None if result is None else criterion_share(result)
