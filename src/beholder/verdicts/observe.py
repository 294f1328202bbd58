"""Read the JSON object of an answer, in any of the forms that answers come in, into observations.

Our compact form keeps criteria under `criteria` and assertions as an object by id. The published forms keep them under
`assertions`, `scores`, `dimensions`, `details` or `…_factor_results`, and assertions as a list. One table of names
covers them all, and a criterion is read in the same way wherever it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from beholder.errors import AnswerError
from beholder.rubrics.prompt import offers_not_applicable
from beholder.rubrics.rubric import Assertion, Criterion, NotApplicable, Rubric
from beholder.verdicts.parse import parse_number, parse_score, parse_text
from beholder.verdicts.verdict import Flag, format_count, quote_value

MAX_COMPLAINTS = 50
CONTAINERS = ("criteria", "assertions", "scores", "dimensions", "details", "factor_results", "results")
SCORES = ("score", "dimension_score")
REASONS = ("reason", "justification", "reasoning")
ASSERTION_LISTS = ("assertions", "results")
ASSESSMENTS = ("assessment", "overall_assessment", "reasoning")
ANSWERS = {
    "yes": "yes",
    "y": "yes",
    "no": "no",
    "n": "no",
    "n/a": "not_applicable",
    "na": "not_applicable",
    "not applicable": "not_applicable",
    "not_applicable": "not_applicable",
}
ABSTAIN = "abstain"  # in place of a score or an answer, from a judge that may abstain


@dataclass(frozen=True, slots=True)
class ObservedAssertion:
    """The answer to one assertion: `yes`, `no`, `not_applicable` or `abstained`.

    `question` is the judge's own wording of the assertion, where it gave one.
    """

    answer: str
    evidence: str = ""
    confidence: int | Decimal | None = None
    question: str = ""


@dataclass(frozen=True, slots=True)
class ObservedCriterion:
    """What a judge said about one criterion.

    Attributes:
        claims: Numbers that the judge computed itself, such as `pass_rate`.
        abstained: Whether the judge gave no score; its assertions, where there are any, then decide the score.
    """

    score: int | Decimal | None
    reason: str = ""
    assertions: Mapping[str, ObservedAssertion] = field(default_factory=dict)
    claims: Mapping[str, object] = field(default_factory=dict)
    abstained: bool = False

    @property
    def applies(self) -> bool:
        """Whether there is anything to score: it has no assertions, or one that is not N/A."""
        return _any_applies(self.assertions)


@dataclass(frozen=True, slots=True)
class Observations:
    """A whole answer, checked against the form of its rubric but not scored.

    Attributes:
        claims: Overall numbers that the judge computed itself.
        flags: What a reader of the verdict should know about the answer's form.
        measurements: By name, from a judge that measures.
    """

    criteria: Mapping[str, ObservedCriterion]
    findings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    assessment: str = ""
    claims: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    measurements: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """What a reader must know about an answer besides its rubric.

    Attributes:
        label: The label under which the judge was given the case; the answer should repeat it. Empty: not checked.
        family: Whether the same answer is also read for the sister rubrics, so that their criteria are expected in it.
        may_abstain: Whether the judge may answer "abstain" in place of a score or an answer. Only then are its
            `measurements` read.
    """

    label: str = ""
    family: bool = False
    may_abstain: bool = False


DEFAULT_CONTEXT = AnswerContext()


def observe_answer(
    document: Mapping[str, object], rubric: Rubric, context: AnswerContext = DEFAULT_CONTEXT
) -> Observations:
    """Read an answer, in any of the published forms, and check it against the form of its rubric.

    Args:
        document: The JSON object of the answer.
        rubric: The rubric that was asked, with its style applied.
        context: What else is known about the answer.

    Raises:
        AnswerError: With everything that is wrong in the answer.
    """
    reader = _AnswerReader(rubric, context)
    observed = reader.read(document)
    if reader.complaints:
        more = len(reader.complaints) - MAX_COMPLAINTS
        raise AnswerError(reader.complaints[:MAX_COMPLAINTS] + ([f"and {more:,} more"] if more > 0 else []))
    if nothing := explain_nothing_applies(rubric, observed):
        raise AnswerError([nothing])
    return observed


def explain_nothing_applies(rubric: Rubric, observed: Observations) -> str:
    """Return what is wrong with an answer in which nothing can be scored; empty where something can."""
    applying = [criterion for criterion in rubric.criteria if observed.criteria[criterion.key].applies]
    if any(criterion.weight > 0 for criterion in applying):
        return ""
    whose = " of a criterion with a weight" if applying else ""
    return f"nothing in it applies: every assertion{whose} is N/A"


class _AnswerReader:
    """Reads one answer and collects what is wrong (`complaints`) and what is unusual (`flags`)."""

    def __init__(self, rubric: Rubric, context: AnswerContext) -> None:
        self.rubric = rubric
        self.context = context
        self.complaints: list[str] = []
        self.flags: list[Flag] = []
        self.reworded_ids: list[str] = []

    def read(self, document: Mapping[str, object]) -> Observations:
        blocks = self._blocks(document)
        criteria = {
            criterion.key: self._criterion(criterion, blocks[criterion.key])
            for criterion in self.rubric.criteria
            if criterion.key in blocks
        }
        findings = {finding.key: self._finding(finding.key, document) for finding in self.rubric.findings}
        self._check_echo(document)
        if self.reworded_ids:
            why = "the judge's wording of the question is not the rubric's; its own is kept"
            self.flags.append(Flag("question_differs", ", ".join(self.reworded_ids), why=why))
        measured = document.get("measurements") if self.context.may_abstain else None
        return Observations(
            criteria,
            findings,
            self._assessment(document),
            _read_claims(document),
            tuple(self.flags),
            {name: _read_measurement(value) for name, value in measured.items()}
            if isinstance(measured, Mapping)
            else {},
        )

    def _blocks(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """Return the criteria of the answer by key, wherever they are; complain about missing and unknown ones."""
        wanted = {criterion.key for criterion in self.rubric.criteria}
        holder, container = self._container(document, wanted)
        blocks = {_normalize_key(key): value for key, value in container.items()}
        if len(blocks) < len(container):
            self.complaints.append(f"{holder} holds a criterion twice, spelled differently")
        self.complaints += [
            f"the criterion {key!r} is missing" for key in _sort_by_rubric(self.rubric, wanted - set(blocks))
        ]
        others = [key for key in blocks if key not in wanted]
        of_sisters = [key for key in others if key in self.rubric.sisters]
        if of_sisters and not self.context.family:
            self.flags.append(Flag("sister_criteria", holder, of_sisters, "criteria of sister rubrics were set aside"))
        if holder:  # at the top level other keys are other parts of the answer
            unknown = [key for key in others if key not in of_sisters]
            self.complaints += [f"the criterion {quote_value(key)} is unknown" for key in unknown]
        return {key: blocks[key] for key in blocks if key in wanted}

    def _container(self, document: Mapping[str, object], wanted: set[str]) -> tuple[str, Mapping[str, object]]:
        """Return the object that holds the criteria, and its key; the key is empty for the top level."""
        results_key = self.rubric.results_key
        other = {setting.results for setting in self.rubric.settings.values()} - {results_key}
        names = dict.fromkeys((*CONTAINERS, results_key))
        containers = [(name, document[name]) for name in names if name and _holds_criteria(document.get(name), wanted)]
        if _holds_criteria(document, wanted):
            containers.append(("", document))
        elsewhere = sorted(name for name in other if _holds_criteria(document.get(name), wanted))
        if not containers:
            if elsewhere:
                self.complaints.append(
                    f"the answer has {', '.join(elsewhere)}, which is for another setting, and no {results_key}"
                )
            return "", {}
        if elsewhere:
            self.flags.append(Flag("other_setting", ", ".join(elsewhere), why="results of another setting, set aside"))
        if len(containers) > 1:
            places = " and ".join(name or "the top level" for name, _ in containers)
            self.complaints.append(f"criteria stand in two places: {places}")
        name, container = containers[0]
        assert isinstance(container, Mapping)
        return name, container

    def _criterion(self, criterion: Criterion, block: object) -> ObservedCriterion:
        place = criterion.key
        if not isinstance(block, Mapping):
            return self._bare_score(criterion, block)
        assertions = self._assertions(criterion, block) if criterion.assertions else {}
        value = _first_present(block, SCORES)
        abstained = self._abstains(value)
        score: int | Decimal | None = None
        if _any_applies(assertions) and self.rubric.scoring.criterion_score == "given":
            if not abstained:
                score = self._score(criterion, value, f"{place}.score")
        else:  # only a claim: code computes the score, or there is none
            score = parse_number(value)
        reason = _first_present(block, (self.rubric.reason.key, *REASONS))
        return ObservedCriterion(score, self._reason(reason, place), assertions, _read_claims(block), abstained)

    def _abstains(self, value: object) -> bool:
        return self.context.may_abstain and value == ABSTAIN

    def _bare_score(self, criterion: Criterion, value: object) -> ObservedCriterion:
        """Read a score without an object around it: normal in the published form of `description` alone."""
        if criterion.assertions:
            self.complaints.append(
                f"{criterion.key} should be an object with its assertions and is {quote_value(value)}"
            )
            return ObservedCriterion(None)
        if self.rubric.format != "description":
            self._reason(None, criterion.key)
        if self._abstains(value):
            return ObservedCriterion(None, abstained=True)
        return ObservedCriterion(self._score(criterion, value, criterion.key))

    def _score(self, criterion: Criterion, value: object, place: str) -> int | Decimal | None:
        score, problem, flag = parse_score(value, criterion.scale, criterion.whole)
        if problem:
            self.complaints.append(f"{place} {problem}")
        if flag:
            self.flags.append(Flag(flag, place, value, "read as a number all the same"))
        return score

    def _reason(self, value: object, place: str) -> str:
        name = f"{place}.{self.rubric.reason.key}"
        reason = parse_text(value)
        if reason is None:
            self.complaints.append(f"{name} should be a text and is {quote_value(value)}")
            return ""
        words = len(reason.split())
        limits = self.rubric.reason.words
        if not words:
            self.flags.append(Flag("empty_reason", name, why="the score has no reason beside it"))
        elif limits and not limits[0] <= words <= limits[1]:
            why = f"{format_count(words, 'word')}; {limits[0]} to {limits[1]} were asked for"
            self.flags.append(Flag("reason_length", name, words, why))
        return reason

    def _assertions(self, criterion: Criterion, block: Mapping[str, object]) -> dict[str, ObservedAssertion]:
        listed = _first_present(block, ASSERTION_LISTS)
        entries = self._entries(listed, criterion.key)
        known = {assertion.id: assertion for assertion in criterion.assertions}
        ids = Counter(id_ for id_, _ in entries)
        where = f"in {criterion.key}"
        self.complaints += [f"the assertion {id_} {where} is missing" for id_ in known if id_ not in ids]
        self.complaints += [f"the assertion {quote_value(id_)} {where} is unknown" for id_ in ids if id_ not in known]
        self.complaints += [f"the assertion {id_} {where} stands there twice" for id_ in known if ids[id_] > 1]
        return {id_: self._assertion(known[id_], entry) for id_, entry in entries if id_ in known}

    def _entries(self, listed: object, place: str) -> Sequence[tuple[str, Mapping[str, object]]]:
        """Return assertions as pairs of id and object, from an object by id or a list."""
        if isinstance(listed, Mapping):
            pairs = [(str(id_), entry) for id_, entry in listed.items()]
        elif isinstance(listed, list):
            pairs = [(str(entry.get("id")) if isinstance(entry, Mapping) else "?", entry) for entry in listed]
        else:
            self.complaints.append(f"the assertions of {place} are missing")
            return []
        entries: list[tuple[str, Mapping[str, object]]] = []
        for id_, entry in pairs:
            if isinstance(entry, str):
                entries.append((id_, {"answer": entry}))
            elif isinstance(entry, Mapping):
                entries.append((id_, entry))
            else:
                self.complaints.append(f"the assertion {quote_value(id_)} in {place} should be an object")
        return entries

    def _assertion(self, assertion: Assertion, entry: Mapping[str, object]) -> ObservedAssertion:
        evidence = parse_text(entry.get("evidence"))
        if evidence is None:
            self.complaints.append(
                f"{assertion.id}.evidence should be a text and is {quote_value(entry.get('evidence'))}"
            )
        elif not evidence.strip():
            self.flags.append(Flag("empty_evidence", assertion.id, why="the answer has no evidence beside it"))
        question = parse_text(entry.get("question")) or ""
        if question and _split_words(question) != _split_words(assertion.text):
            self.reworded_ids.append(assertion.id)
        return ObservedAssertion(
            self._answer(assertion, entry.get("answer")), evidence or "", self._confidence(assertion, entry), question
        )

    def _answer(self, assertion: Assertion, value: object) -> str:
        if isinstance(value, bool):
            self.flags.append(Flag("answer_as_boolean", assertion.id, value, "read as Yes or No"))
            return "yes" if value else "no"
        if self._abstains(value):
            return "abstained"
        answer = ANSWERS.get(value.strip().rstrip(".").lower()) if isinstance(value, str) else None
        if answer is None:
            self.complaints.append(f"{assertion.id}.answer should be Yes or No and is {quote_value(value)}")
            return "no"
        if answer == "not_applicable":
            if self.rubric.scoring.not_applicable is NotApplicable.REFUSE:
                self.complaints.append(f"{assertion.id}.answer is N/A, which this rubric does not allow")
            elif not offers_not_applicable(self.rubric, assertion):
                why = "N/A was not offered; the assertion leaves the denominator"
                self.flags.append(Flag("not_applicable", assertion.id, value, why))
        return answer

    def _confidence(self, assertion: Assertion, entry: Mapping[str, object]) -> int | Decimal | None:
        if self.rubric.scoring.criterion_score != "confidence" or self._abstains(entry.get("answer")):
            return None
        score, problem, flag = parse_score(entry.get("confidence"), (1, 5), whole=True)
        if problem:
            self.complaints.append(f"{assertion.id}.confidence {problem}")
        if flag:
            self.flags.append(Flag(flag, f"{assertion.id}.confidence", entry.get("confidence"), "read as a number"))
        return score

    def _finding(self, key: str, document: Mapping[str, object]) -> tuple[str, ...]:
        holder = document.get("findings")
        value = document.get(key, holder.get(key) if isinstance(holder, Mapping) else None)
        gated = any(gate.finding == key for gate in self.rubric.scoring.gates)
        if value is None and not gated:
            self.flags.append(Flag("finding_missing", key, why="the list was not given and counts as empty"))
            return ()
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self.complaints.append(f"{key} should be a list of texts and is {quote_value(value)}")
            return ()
        return tuple(text.strip() for text in value if text.strip())

    def _assessment(self, document: Mapping[str, object]) -> str:
        if not self.rubric.assessment:
            return ""
        value = _first_present(document, ASSESSMENTS)
        assessment = parse_text(value)
        if assessment is None:
            self.complaints.append(f"assessment should be a text and is {quote_value(value)}")
        elif not assessment.strip():
            self.flags.append(Flag("assessment_missing", "assessment", why="the answer has no closing text"))
        return assessment or ""

    def _check_echo(self, document: Mapping[str, object]) -> None:
        label = self.context.label
        echoed = document.get(self.rubric.echo) if self.rubric.echo else None
        if label and echoed is not None and echoed != label:
            self.flags.append(Flag("label_differs", self.rubric.echo, echoed, f"the case was called {label}"))


def _any_applies(assertions: Mapping[str, ObservedAssertion]) -> bool:
    return not assertions or any(assertion.answer != "not_applicable" for assertion in assertions.values())


def _read_claims(block: Mapping[str, object]) -> dict[str, object]:
    """Return the numbers that a judge computed itself."""
    claims: dict[str, object] = {}
    for key in ("pass_rate", "passed", "total", "avg_confidence", "weighted_score", "score", "grade", "percentage"):
        if key in block and not isinstance(block[key], Mapping | list):
            claims[key] = block[key]
    summary = block.get("summary")
    if isinstance(summary, Mapping):
        claims |= {str(key): value for key, value in summary.items() if not isinstance(value, Mapping | list)}
    return claims


def _read_measurement(value: object) -> dict[str, object]:
    """Return a measurement as an audit stores it: `value` (`None` where it has no meaning), `unit`, `sentence`."""
    parts = value if isinstance(value, Mapping) else {}
    number = parse_number(parts.get("value"))
    return {
        "value": None if number is None else float(number),
        "unit": parse_text(parts.get("unit")) or "",
        "sentence": parse_text(parts.get("sentence")) or "",
    }


def _holds_criteria(container: object, wanted: set[str]) -> bool:
    """Return whether a container has a value that may be a criterion: not a list, nor a text that is not a number."""
    return isinstance(container, Mapping) and any(
        _normalize_key(key) in wanted
        and not isinstance(value, list)
        and (not isinstance(value, str) or parse_number(value) is not None)
        for key, value in container.items()
    )


def _first_present(block: Mapping[str, object], names: Sequence[str]) -> object:
    """Return the value of the first name that is present, also if it is null; `None` where none is."""
    return next((block[name] for name in names if name in block), None)


def _normalize_key(key: str) -> str:
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def _split_words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text.casefold()).split()


def _sort_by_rubric(rubric: Rubric, keys: set[str]) -> list[str]:
    return [criterion.key for criterion in rubric.criteria if criterion.key in keys]
