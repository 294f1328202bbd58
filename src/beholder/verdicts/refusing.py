"""A refusal in plain words, from a model that has no other way to refuse.

It says that its speaker cannot or will not do what was asked. "I cannot see any difference" and "Sorry for the delay"
are answers, though of the wrong form: such a one is sent back once, while a refusal is final.
"""

from __future__ import annotations

import re

_OPENING = (
    r"(?:(?:i'm|i am|we're|we are) )?(?:\w+ )?sorry|unfortunately|regrettably|no,|(?:my |i |we )?apolog\w+"
    r"|as an?\b|thanks?\b|i (?:understand|appreciate)\b"
)
_CANNOT = (
    r"(?:i|we) (?:\w+ly |just )?(?:can't|cannot|can not|couldn't|won't|will not|(?:must )?(?:decline|refuse) to)"
    r"|(?:(?:i|we)(?:'m| am|'re| are) )?(?:\w+ly )?(?:unable|not (?:able|allowed|permitted|willing|going)) to"
)
_PICTURE = r"(?:[\w'-]+ ){0,4}?(?:images?|photos?|photographs?|pictures?|attachments?)\b(?!'s)"
_MATTER = rf"(?:{_PICTURE}|(?:[\w'-]+ ){{0,4}}?(?:content|material|requests?|tasks?|people|persons?|individuals?)\b)"
_JUDGE = r"(?:evaluate|assess|judge|rate|score|grade|compare|review|analy[sz]e|examine|identify)"
_WORK = "|".join(
    (
        r"(?:help|assist|comply|engage|proceed|continue|participate)\b(?! (?:but|notic|think|wonder|feel))",
        r"do (?:that|this|so|it)\b",
        rf"(?:{_JUDGE}|fulfil+|complete|process|answer|support) {_MATTER}",
        rf"{_JUDGE}(?: (?:it|this|that|these|them))?(?=[.,!]|\Z)",
        r"identify (?:who|anyone|someone)\b",
        rf"(?:see|view|access|open) {_PICTURE}(?=[.,;:!]|\Z| (?:you|that|attached|provided|because|so|and|or)\b)",
        r"(?:provide|give|offer|perform|make|carry out|produce) (?:[\w'-]+ ){0,4}?"
        r"(?:assessment|evaluation|analysis|judge?ment|rating|scores?|opinion|feedback|information|help|that|this)\b",
        r"(?=[.!]|\Z)",  # "Sorry, I cannot."
    )
)
# "I cannot rate this image higher than 4", "I cannot identify any image artefacts": a judgement, and no refusal.
_JUDGED = (
    r"higher|above|more than|better|lower|below|less than|perfect|full marks"
    r"|any (?:\w+ ){0,2}(?:differences?|changes?|flaws?|faults?|art[ei]facts?|problems?|issues?|seams?|errors?)"
)
_REFUSAL = re.compile(
    rf"\W*(?:(?:{_OPENING}).{{0,120}}?)?\b(?:{_CANNOT})(?![^.;]*\b(?:{_JUDGED})\b)"
    rf" ?(?:be able to )?(?:\w+ly )?(?:{_WORK})"
)


def declines(text: str) -> bool:
    """Whether a text is a refusal; one with a JSON object in it never is."""
    said = " ".join(text[:2000].lower().replace("’", "'").split())
    return "{" not in text and bool(_REFUSAL.match(said))
