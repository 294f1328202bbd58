"""TRL: a reward function for `GRPOTrainer(reward_funcs=[…])`.

Where there is no score the reward is `None`, which the trainer leaves out, and never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from beholder.api.options import Judges, OptionsLike, RubricLike
from beholder.api.session import Session
from beholder.errors import UsageError
from beholder.integrations.inputs import choose_output, find_inputs, list_inputs
from beholder.integrations.rewards import RewardJudge


def reward(
    rubric: RubricLike,
    *,
    judge: Judges = None,
    criterion: str | None = None,
    output: str | None = None,
    columns: Mapping[str, str] | None = None,
    session: Session | None = None,
    ledger: str | None = None,
    name: str | None = None,
    budget: float | Decimal | None = None,
    samples: int = 1,
    options: OptionsLike = None,
) -> Callable[..., list[float | None]]:
    """Return a reward function of TRL, which judges all completions of a step at once.

    The images and texts that the rubric declares are columns of the training data set, of the same names or those in
    `columns`; the completion is what the rubric needs besides.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        judge: Who judges; by default the instruments, which are free. With `budget`, `samples`, `ledger`, `name` and
            `options` as in `Session`. Where several processes train, a budget needs a ledger and a name.
        criterion: The reward is the score of this criterion, brought to 0–1, and not that of the verdict.
        output: Which input of the rubric the completion is, where that is not clear.
        columns: The columns of the data set by the names that the rubric has: `{"image": "photo"}`.
        session: In place of `judge` and what goes with it, a session of yours.

    Raises:
        UsageError: Wrong use.
    """
    asked = RewardJudge(
        rubric,
        judge,
        criterion=criterion,
        session=session,
        ledger=ledger,
        name=name,
        budget=budget,
        samples=samples,
        options=options,
    )
    names = dict(columns or {})
    roles = {image.role for image in asked.rubric.images}
    if unknown := names.keys() - list_inputs(asked.rubric):
        known = ", ".join(sorted(list_inputs(asked.rubric)))
        raise UsageError(f"{asked.rubric.name} has no input {sorted(unknown)[0]!r}; it has {known}.")

    def score(
        prompts: Sequence[object], completions: Sequence[object], log_metric: Any = None, **given: Any
    ) -> list[float | None]:
        listed = {name: column for name, column in given.items() if isinstance(column, list | tuple)}
        if missing := [column for column in names.values() if column not in listed]:
            raise UsageError(f"The training data have no column {missing[0]!r}; there are {', '.join(listed)}.")
        rows = []
        for at, completion in enumerate(completions):
            row = {name: column[at] for name, column in listed.items()}
            found = find_inputs(asked.rubric, [row, {name: row[column] for name, column in names.items()}])
            hint = f" Which column is which input, columns={{…}} says: here are {', '.join(sorted(listed))}."
            place = choose_output(asked.rubric, output, found, f"reward({asked.rubric.name!r}, output=…)", hint)
            if place in roles:
                raise UsageError(f"A completion is a text, and {place!r} of {asked.rubric.name} is an image.")
            rows.append({**found, place: _read_completion(completion)})
        rewards = asked.judge(rows)
        if callable(log_metric) and rewards:
            log_metric("beholder/unscored", sum(one is None for one in rewards) / len(rewards))
        return rewards

    score.__name__ = f"beholder_{asked.rubric.name}" + (f"_{criterion}" if criterion else "")
    return score


def _read_completion(completion: object) -> object:
    """Return the text of a completion, which TRL gives as a text or as the messages of a conversation."""
    if not isinstance(completion, list):
        return completion
    contents = [message.get("content") or "" for message in completion if message.get("role") == "assistant"]
    content = contents[-1] if contents else ""
    if isinstance(content, list):  # a message in parts
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content
