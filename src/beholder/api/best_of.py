"""`best_of`: the best of several images by a rubric, with its verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from beholder.api.arguments import check_session_alone
from beholder.api.options import Judges, Options, OptionsLike, RubricLike, make_case
from beholder.api.session import Session
from beholder.errors import JudgeUnavailable, UsageError
from beholder.runs.suite import derive_case_schema
from beholder.verdicts.verdict import Verdict

Picture = TypeVar("Picture")


@dataclass(frozen=True, slots=True)
class BestOf(Generic[Picture]):
    """The best of several images.

    Attributes:
        index: Its number among them, from 0.
        image: The image, as it was given.
        verdict: Its verdict.
        verdicts: Of all images, in their order.
        tied: The numbers of all images with the highest score, in order; more than one is a tie, of which the first is
            chosen.
        unscored: The numbers of images without a score, which cannot be chosen.
    """

    index: int
    image: Picture = field(repr=False)
    verdict: Verdict
    verdicts: tuple[Verdict, ...] = field(repr=False)
    tied: tuple[int, ...]
    unscored: tuple[int, ...]


def best_of(
    images: Iterable[Picture],
    rubric: RubricLike,
    /,
    *,
    role: str | None = None,
    judge: Judges = None,
    samples: int = 1,
    budget: float | None = None,
    session: Session | None = None,
    options: OptionsLike = None,
    **inputs: object,
) -> BestOf[Picture]:
    """Return the image with the highest score, such as of what a diffusion model made of one prompt.

    All are judged at the same time. Images with the same score are a tie; see `BestOf.tied`.

    Args:
        images: Images of any kind that `Case` takes.
        rubric: A rubric, or its name, folder or YAML file.
        role: Which image of the rubric they are; by default the one that is needed and not among the inputs.
        judge: See `judge`; so are `samples` and `options`.
        budget: US dollars that are never passed.
        session: In place of `judge`, `samples`, `budget` and `options`, a session of yours.
        **inputs: The other images and texts, the same for all.

    Raises:
        JudgeUnavailable: None has a score; its `verdict` is that of the first image.
        UsageError: Wrong use, or no image.
    """
    check_session_alone(session, judge, None, None, budget, samples, options)
    one = Options.of(options).load_one_rubric(rubric)
    if isinstance(images, str | bytes | os.PathLike | Mapping) or not isinstance(images, Iterable):
        raise UsageError(
            f"best_of chooses from several images, [first, second], and this is one: {type(images).__name__}."
        )
    given: list[Any] = list(images)
    if not given:
        raise UsageError("There is no image to choose from.")
    if role is None:
        roles = derive_case_schema([one], "").roles
        lacking = {name for names in roles if len(rest := set(names) - inputs.keys()) == 1 for name in rest}
        if len(lacking) != 1:
            named = ", ".join(image.role for image in one.images)
            raise UsageError(f"Which image of {one.name} these are is not clear: give role=…, one of {named}.")
        [role] = lacking
    cases = [make_case([one], None, {**inputs, role: image}) for image in given]
    if session is not None:
        verdicts = tuple(session.judge_many(one, cases))
    else:
        with Session(judge, samples=samples, budget=budget, options=options) as own:
            verdicts = tuple(own.judge_many(one, cases))
    scores = {number: verdict.score for number, verdict in enumerate(verdicts) if verdict.score is not None}
    if not scores:
        why = verdicts[0].missing_score_reason
        raise JudgeUnavailable(f"None of the {len(given)} images has a score; the first: {why}", verdicts[0])
    highest = max(scores.values())
    tied = tuple(number for number, score in scores.items() if score == highest)
    unscored = tuple(number for number in range(len(given)) if number not in scores)
    return BestOf(tied[0], given[tied[0]], verdicts[tied[0]], verdicts, tied, unscored)
