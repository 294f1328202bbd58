"""What reward functions have in common: one verdict for each output of a batch, asked at the same time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from decimal import Decimal

from beholder.api.options import Judges, Options, OptionsLike, RubricLike, make_case
from beholder.api.session import Session
from beholder.cases.case import Case
from beholder.errors import CaseError, UsageError
from beholder.verdicts.verdict import Verdict

_log = logging.getLogger(__name__)


class RewardJudge:
    """Judges the outputs of a batch by one rubric, in a session of its own or the caller's.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        judge: Who judges, by default the instruments; `ledger`, `budget`, `samples` and `options` as in `Session`.
        criterion: The reward is the score of this criterion, brought to 0–1, and not that of the verdict.
        session: In place of `judge` and what goes with it.

    Raises:
        UsageError: The rubric has no such criterion, is several, or `session` is given with what it replaces.
    """

    def __init__(
        self,
        rubric: RubricLike,
        judge: Judges,
        *,
        criterion: str | None,
        session: Session | None,
        ledger: str | None,
        budget: float | Decimal | None,
        samples: int,
        options: OptionsLike,
    ) -> None:
        loaded = Options.of(options).load_rubrics(rubric)
        if len(loaded) > 1:
            raise UsageError(f"Choose one rubric: {', '.join(one.name for one in loaded)} are several.")
        [self.rubric] = loaded
        keys = [one.key for one in self.rubric.criteria]
        if criterion is not None and criterion not in keys:
            raise UsageError(f"The rubric {self.rubric.name} has no criterion {criterion!r}; it has {', '.join(keys)}.")
        if session is not None and (judge, ledger, budget, samples, options) != (None, None, None, 1, None):
            raise UsageError(
                "A session has its own judge, ledger, budget, samples and options; give either it or them."
            )
        self.criterion = criterion
        self.session = session or Session(judge, ledger=ledger, budget=budget, samples=samples, options=options)

    def judge(self, rows: Sequence[Mapping[str, object]]) -> list[float | None]:
        """Return the reward of each row, from 0 to 1; `None` where there is no score.

        An output that cannot be judged at all (an array with NaN in it) has none either, and that is logged.

        Raises:
            UsageError: No row can be judged, or an input is missing or unknown.
        """
        made = [self._make_case(row) for row in rows]
        failures = [one for one in made if isinstance(one, CaseError)]
        if failures and len(failures) == len(made):
            raise failures[0]
        for failure in failures:
            _log.warning("beholder: an output has no reward: %s", failure)
        cases = [one for one in made if isinstance(one, Case)]
        verdicts = self.session.judge_many(self.rubric, cases)
        return [self._read_reward(next(verdicts)) if isinstance(one, Case) else None for one in made]

    def _make_case(self, row: Mapping[str, object]) -> Case | CaseError:
        try:
            return make_case([self.rubric], None, row)
        except CaseError as error:
            return error

    def _read_reward(self, verdict: Verdict) -> float | None:
        if self.criterion is None:
            return verdict.score
        result = verdict.criteria.get(self.criterion)
        if result is None or result.score is None:
            return None
        low, high = result.scale
        return float((result.score - low) / (high - low))
