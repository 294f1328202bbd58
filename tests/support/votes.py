"""Runs of pairs that people can vote on: models whose names must stay hidden, and a judge that prefers red."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
from PIL import Image

from beholder.cases.case import Case
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.reviews.review import Review, find_or_start_review
from beholder.reviews.sheet import load_rating, record_rating
from beholder.reviews.votes import side_of, vote_name
from beholder.rubrics.brief import GIVEN, SWAPPED
from beholder.rubrics.load import load_rubric
from beholder.verdicts.preference import combine_orders, list_answers
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import Outcome, Preference, SentImage, Verdict
from support.ledger import hexed, run_record

RUN = "r1"
RUBRIC = "edit-preference"
MODELS = {"aurora": 220, "basalt": 150, "cobalt": 60}
"""Models, and how red what they make is."""
SECRETS = (*MODELS, "photo-0", ".png", "openai", "gpt-5", "nightly", "Candidate", "model_first", "model_second")
"""What nobody who has yet to vote may read in a page."""
JUDGE = "openai:gpt-5-mini"
PHOTOS = 6


def picture(red: int, photo: int) -> bytes:
    out = io.BytesIO()
    image = Image.new("RGB", (96, 64), (red, 30 * photo % 255, 90))
    image.paste((red, 200, 40), (10 + 4 * photo, 12, 40 + 4 * photo, 48))
    image.save(out, "WEBP")
    return out.getvalue()


def answer(choice: str, strength: int = 2) -> dict[str, object]:
    one: dict[str, object] = {"reason": "it is redder than the other one, plainly", "choice": choice}
    one |= {"strength": strength} if choice in ("A", "B") else {}
    return {"criteria": dict.fromkeys(("followed", "preserved", "natural"), one), "overall": one}


def pair_verdict(case: str, given: str, swapped: str) -> Verdict:
    """The verdict of a judge that said these letters in given and in swapped order; no letter is a call that failed."""
    rubric = load_rubric(RUBRIC)
    parts = []
    for order, letter in ((GIVEN, given), (SWAPPED, swapped)):
        header = VerdictHeader(case, rubric, JUDGE, order)
        parts.append(score_answer(header, answer(letter)) if letter else header.make_verdict(Outcome.TRUNCATED, "cut"))
    answers = tuple(
        one for part, order in zip(parts, (GIVEN, SWAPPED), strict=True) for one in list_answers(part, order, 0)
    )
    failed = [part for part in parts if not part.answered]
    if failed:
        return replace(failed[0], preference=Preference(None, answers=answers))
    return combine_orders(VerdictHeader(case, rubric, JUDGE).make_verdict(Outcome.SCORED), parts, answers)


def pairs(path: Path | str, photos: int = PHOTOS, run: str = RUN, unasked: int = 0) -> Ledger:
    """A run of pairs: every two models on every photograph. The judge prefers red; the last four pairs are a flip, two
    bad ones, a tie, and a call that failed. It was killed before the `unasked` ones."""
    entries: list[Entry] = []
    names = list(MODELS)
    for photo in range(photos):
        for at, first in enumerate(names):
            for second in names[at + 1 :]:
                one, other = (first, second) if (photo + at) % 2 else (second, first)
                entries.append(_entry(len(entries), photo, one, other))
    odd = (("A", "A"), ("both_bad", "both_bad"), ("tie", "tie"), ("A", ""))
    for at, letters in enumerate(odd, len(entries) - len(odd)):
        entries[at] = _judged(entries[at], pair_verdict(entries[at].case.id, *letters))
    ledger = Ledger.open(path, create=True)
    ledger.start(run_record(run, total=len(entries) + unasked, rubrics=(msgspec.to_builtins(load_rubric(RUBRIC)),)))
    ledger.write(run, entries)
    return ledger


def text_pairs(path: Path | str) -> Ledger:
    """A run of one pair of texts about an image that the ledger has."""
    rubric = load_rubric("description-preference")
    texts = {"first": "A boat on a lake.", "second": "A red boat on a calm lake at dawn."}
    fields = {field.name: texts.get(field.name, "Describe it.") for field in rubric.fields}
    digest = hexed("a boat")
    case = Case("p1/aurora-cobalt", {"image": "/data/boat.png"}, fields, {"model_first": "aurora"})
    image = SentImage("image", digest, 96, 64, 1000, False, "image/png", digest, 96, 64, "PNG")
    one = {"reason": "it says more of what is there", "choice": "B", "strength": 2}
    answered = {"criteria": {criterion.key: one for criterion in rubric.criteria}, "overall": one}
    verdict = replace(score_answer(VerdictHeader(case.id, rubric, JUDGE), answered), images=(image,))
    ledger = Ledger.open(path, create=True)
    ledger.start(run_record(RUN, total=1, rubrics=(msgspec.to_builtins(rubric),)))
    ledger.write(RUN, [Entry(0, case, verdict, thumbnails=((digest, picture(90, 0)),))])
    return ledger


def _entry(number: int, photo: int, first: str, second: str) -> Entry:
    id_ = f"photo-{photo:05d}/{first}-{second}"
    reds = {"input": 110, "first": MODELS[first], "second": MODELS[second]}
    sources = {role: f"/data/{role}/{number}.png" for role in reds}
    groups = {"source": f"photo-{photo:05d}", "model_first": first, "model_second": second}
    case = Case(id_, sources, {"instruction": "make it red"}, groups)
    shots = tuple((hexed(f"{role} {number}"), picture(red, photo)) for role, red in reds.items())
    letters = ("A", "B") if reds["first"] > reds["second"] else ("B", "A")
    images = tuple(
        SentImage(role, digest, 96, 64, 1000, False, "image/png", digest, 96, 64, "PNG")
        for role, digest in ((role, hexed(f"{role} {number}")) for role in reds)
    )
    verdict = replace(pair_verdict(id_, *letters), images=images)
    return Entry(number, case, verdict, thumbnails=shots)


def _judged(entry: Entry, verdict: Verdict) -> Entry:
    return replace(entry, verdict=replace(verdict, images=entry.verdict.images))


def vote(ledger: Ledger, review: Review, case: str, winner: str, **criteria: str) -> Verdict:
    """Let a person vote for a candidate, on whatever side it is shown."""
    rubric = load_rubric(RUBRIC)
    order = load_rating(ledger, review, case).sheet.order
    given = {"overall": winner, **criteria}
    sides = {vote_name(rubric, key): side_of(word, order) for key, word in given.items()}
    [verdict] = record_rating(ledger, review, case, sides)
    return verdict


def vote_all(ledger: Ledger, rater: str, *, wrong: int = 0) -> Review:
    """Let a person vote for the redder candidate on all pairs but the first `wrong` of them."""
    review = find_or_start_review(ledger, RUN, rater)
    for number, case in enumerate(sorted(ledger.case_ids(RUN))):
        groups = ledger.case(RUN, case).groups
        redder = MODELS[groups["model_first"]] > MODELS[groups["model_second"]]
        vote(ledger, review, case, "first" if redder != (number < wrong) else "second")
    return review
