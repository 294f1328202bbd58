"""Flow-GRPO and what follows its contract: a reward `score(device)` that returns `fn(images, prompts, metadata)`.

That contract has no word for a missing score. It is NaN, which the trainer must mask: it would spread through a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from beholder.api.options import Judges, OptionsLike, RubricLike
from beholder.api.session import Session
from beholder.errors import UsageError
from beholder.integrations.inputs import choose_output, find_inputs, list_inputs
from beholder.integrations.rewards import RewardJudge

RewardFunction = Callable[..., tuple[list[float], dict[str, Any]]]


def make_score(
    rubric: RubricLike,
    *,
    judge: Judges = None,
    criterion: str | None = None,
    output: str | None = None,
    prompt: str | None = None,
    session: Session | None = None,
    ledger: str | None = None,
    name: str | None = None,
    budget: float | Decimal | None = None,
    samples: int = 1,
    options: OptionsLike = None,
) -> Callable[[Any], RewardFunction]:
    """Return a reward to register beside those of `flow_grpo/rewards.py`: `{"beholder": make_score("edit-quality")}`.

    The other images and texts that the rubric needs are taken by their names from the metadata of each image.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        judge: Who judges; by default the instruments, which are free. With `budget`, `samples`, `ledger`, `name` and
            `options` as in `Session`. Where several processes train, a budget needs a ledger and a name.
        criterion: The reward is the score of this criterion, brought to 0–1, and not that of the verdict.
        output: Which image of the rubric was generated, where that is not clear.
        prompt: Which text of the rubric the prompt is; by default `instruction`, where the rubric has that.
        session: In place of `judge` and what goes with it, a session of yours.

    Returns:
        A function of a device, which is not used. What it returns takes images (a batch of tensors or arrays, N×C×H×W
        from 0 to 1 or N×H×W×C of 8 bits, or a list of images), prompts and metadata, and returns the rewards, from 0 to
        1 or NaN, and an empty mapping.

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
    known = list_inputs(asked.rubric)
    if prompt is not None and prompt not in known:
        raise UsageError(f"{asked.rubric.name} has no input {prompt!r}; it has {', '.join(sorted(known))}.")
    text = prompt or ("instruction" if "instruction" in known else None)

    def score(
        images: Sequence[object],
        prompts: Sequence[str],
        metadata: Sequence[Mapping[str, object]] | None = None,
        *_: Any,
    ) -> tuple[list[float], dict[str, Any]]:
        for name, given in (("prompts", prompts if text else None), ("metadata", metadata or None)):
            if given is not None and len(given) != len(images):
                raise UsageError(f"There are {len(images)} images and {len(given)} {name}; give one for each image.")
        rows = []
        for at, image in enumerate(images):
            said = {} if text is None else {text: prompts[at]}
            found = find_inputs(asked.rubric, [said, metadata[at] if metadata else None])
            place = choose_output(asked.rubric, output, found, f"make_score({asked.rubric.name!r}, output=…)")
            rows.append({**found, place: image})
        return [math.nan if one is None else one for one in asked.judge(rows)], {}

    def for_device(device: object = None) -> RewardFunction:
        return score

    return for_device
