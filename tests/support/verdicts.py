"""Any verdict that can be."""

from __future__ import annotations

from hypothesis import strategies as st

from beholder.verdicts.verdict import (
    AssertionResult,
    CalibratedRating,
    CasePicture,
    Correction,
    Coverage,
    CriterionResult,
    Flag,
    Juror,
    Jury,
    Outcome,
    Place,
    SentImage,
    Verdict,
    mark_unmeasured,
)

TEXT = st.text(max_size=20)
NAME = st.text("abcdefgh_", min_size=1, max_size=8)
WHOLE = st.integers(-(10**15), 10**15)
REAL = st.floats(-(10.0**15), 10.0**15)
NUMBER = WHOLE | REAL
COUNT = st.integers(0, 10**9)
SHARE = st.floats(0, 1)
JSON = st.recursive(st.none() | st.booleans() | NUMBER | TEXT, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
COST = st.decimals(0, 1000, places=9).map(lambda cost: cost.normalize() + 0)


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


def listed(values: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, max_size=most).map(tuple)


def verdicts() -> st.SearchStrategy[Verdict]:
    flags = listed(st.builds(Flag, TEXT, TEXT, JSON, TEXT))
    corrections = listed(st.builds(Correction, TEXT, JSON, JSON, TEXT))
    assertions = listed(
        st.builds(AssertionResult, TEXT, TEXT, st.sampled_from(["yes", "no", "abstained"]), TEXT, maybe(NUMBER))
    )
    criterion = st.builds(
        CriterionResult,
        score=maybe(NUMBER),
        reported=maybe(NUMBER),
        scale=st.tuples(NUMBER, NUMBER),
        weight=NUMBER,
        reason=TEXT,
        yes=COUNT,
        no=COUNT,
        not_applicable=COUNT,
        assertions=assertions,
        abstained=COUNT,
        score_range=maybe(st.tuples(NUMBER, NUMBER)),
    )
    image = st.builds(
        SentImage, TEXT, TEXT, COUNT, COUNT, COUNT, st.booleans(), TEXT, TEXT, COUNT, COUNT, st.sampled_from(["png"])
    )
    juror = st.builds(
        Juror,
        judge=TEXT,
        sample=COUNT,
        outcome=st.sampled_from(Outcome),
        score=maybe(SHARE),
        criteria=st.dictionaries(NAME, maybe(NUMBER), max_size=2),
        detail=TEXT,
        model=maybe(TEXT),
        flags=flags,
    )
    jury = st.builds(Jury, COUNT, COUNT, st.dictionaries(NAME, NUMBER, max_size=2), maybe(SHARE), listed(juror, 2))
    calibrated = st.builds(
        CalibratedRating,
        value=maybe(REAL),
        low=maybe(REAL),
        high=maybe(REAL),
        scale=st.tuples(REAL, REAL),
        raw=maybe(NUMBER),
        calibration=TEXT,
        why=TEXT,
        filled=listed(TEXT),
    )
    return st.builds(
        Verdict,
        case=TEXT,
        rubric=NAME,
        rubric_version=TEXT,
        judge=TEXT,
        outcome=st.sampled_from(Outcome),
        setting=maybe(TEXT),
        style=maybe(TEXT),
        model=maybe(TEXT),
        detail=TEXT,
        criteria=st.dictionaries(NAME, criterion, max_size=2),
        total=maybe(REAL),
        max_total=maybe(REAL),
        percentage=maybe(REAL),
        grade=maybe(TEXT),
        score=maybe(SHARE),
        score_derived=st.booleans(),
        partial=st.booleans(),
        passed=maybe(st.booleans()),
        findings=st.dictionaries(NAME, listed(TEXT), max_size=2),
        assessment=TEXT,
        reported=st.dictionaries(NAME, JSON, max_size=2),
        flags=flags,
        corrections=corrections,
        measurements=st.dictionaries(NAME, JSON, max_size=2),
        jury=maybe(jury),
        images=listed(image, 2),
        usage=st.dictionaries(NAME, maybe(COUNT), max_size=3),
        cost_usd=maybe(COST),
        latency_s=maybe(st.floats(0, 1000)),
        attempts=COUNT,
        brief_digest=TEXT,
        answer=TEXT,
        coverage=maybe(st.builds(Coverage, COUNT, COUNT, TEXT)),
        total_range=maybe(st.tuples(REAL, REAL)),
        calibrated=st.dictionaries(NAME, calibrated, max_size=2),
        pictures=maybe(listed(st.builds(CasePicture, TEXT, TEXT), 2)),
        places=maybe(listed(st.builds(Place, TEXT, listed(st.tuples(SHARE, SHARE, SHARE, SHARE), 2), TEXT), 2)),
    ).map(mark_unmeasured)  # `scored` by too little is what only an older version wrote
