"""Read the JSON object of an answer, in any of the forms that answers come in, into observations.

Our compact form keeps criteria under `criteria` and assertions as an object by id. The published forms keep them under
`assertions`, `scores`, `dimensions`, `details` or `…_factor_results`, and assertions as a list. One table of names
covers them all, and a criterion is read in the same way wherever it is.

A score, an answer, a confidence or a finding may stand in several places. Where these agree it is read; where they do
not, the answer contradicts itself and is invalid, with both places named. So it is where it says that a list is empty,
or of some length, and it is not. Of texts the first that is not empty is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

from beholder.errors import AnswerError
from beholder.rubrics.prompt import offers_not_applicable
from beholder.rubrics.rubric import Assertion, Criterion, NotApplicable, Number, Rubric
from beholder.verdicts.answer_fields import (
    ANSWERS,
    ASSERTION_LISTS,
    ASSESSMENTS,
    CLAIMS,
    COMMON_KEYS,
    CONTAINERS,
    NO_CRITERIA,
    OVERALL_CLAIMS,
    REASONS,
    SCORES,
    WHOLE,
    Block,
    Given,
    contradicts_length,
    find_near_key,
    first_text,
    has_score,
    holds_criteria,
    is_score_name,
    is_score_of,
    list_assertion_lists,
    list_criteria,
    list_given,
    list_length_claims,
    list_near_answers,
    list_near_findings,
    list_second_scores,
    may_be_criterion,
    normalize_key,
    plain_answer,
    plain_finding,
    plain_number,
    plain_score,
    quote_fact,
    walk_values,
)
from beholder.verdicts.other_places import (
    Said,
    holds_scores,
    is_unknown_score,
    list_outside_answers,
    list_scores_by_letter,
    list_second_answers,
)
from beholder.verdicts.parse import parse_number, parse_score, parse_text
from beholder.verdicts.verdict import Box, Flag, Place, format_count, quote_value

MAX_COMPLAINTS = 50
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
        choice: Of a preference, `A`, `B`, `tie` or `both_bad`, as the judge saw them; else empty.
        strength: 1 to 3 with `A` or `B`, if the judge gave it.
    """

    score: int | Decimal | None
    reason: str = ""
    assertions: Mapping[str, ObservedAssertion] = field(default_factory=dict)
    claims: Mapping[str, object] = field(default_factory=dict)
    abstained: bool = False
    choice: str = ""
    strength: int | None = None

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
        overall: Of a preference, the choice over all criteria.
        places: Where in the images something is that was said.
    """

    criteria: Mapping[str, ObservedCriterion]
    findings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    assessment: str = ""
    claims: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    measurements: Mapping[str, object] = field(default_factory=dict)
    overall: ObservedCriterion | None = None
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """What a reader must know about an answer besides its rubric.

    Attributes:
        label: The label under which the judge was given the case; the answer should repeat it. Empty: not checked.
        family: Whether the same answer is also read for the sister rubrics, so that their criteria are expected in it.
        may_abstain: Whether the judge may answer "abstain" in place of a score or an answer. Only then are its
            `measurements` read.
        needs_texts: Whether it is an error, and not only flagged, that a reason or evidence is missing.
        any_form: Whether the answer is to a prompt that is not ours, which need not ask for each criterion of a
            preference: the choice over all of them is enough.
    """

    label: str = ""
    family: bool = False
    may_abstain: bool = False
    needs_texts: bool = False
    any_form: bool = False


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
    reader = _ScoreReader(rubric, context)
    observed = reader.read(document)
    reader.raise_complaints()
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


class AnswerReader:
    """Collects what is wrong (`complaints`) and what is unusual (`flags`) in an answer, of scores or a preference."""

    def __init__(self, rubric: Rubric, context: AnswerContext) -> None:
        self.rubric = rubric
        self.context = context
        self.complaints: list[str] = []
        self.flags: list[Flag] = []

    def raise_complaints(self) -> None:
        """Raise `AnswerError` if anything is wrong, with the first `MAX_COMPLAINTS`."""
        if self.complaints:
            more = len(self.complaints) - MAX_COMPLAINTS
            raise AnswerError(self.complaints[:MAX_COMPLAINTS] + ([f"and {more:,} more"] if more > 0 else []))

    def normalize_keys(self, prefix: str, block: Mapping[str, object]) -> Mapping[str, object]:
        """Return an object with its keys in plain spelling; complain about one that stands twice (`score`, `Score`)."""
        if block.keys() <= COMMON_KEYS:
            return block
        plain = {normalize_key(key): value for key, value in block.items()}
        if len(plain) < len(block):
            counts = Counter(map(normalize_key, block))
            place = prefix.removesuffix(".") or "the answer"
            twice = [name for name in counts if counts[name] > 1]
            self.complaints += [f"{place} holds {quote_value(name)} twice, spelled differently" for name in twice]
        return plain

    def check_reason(self, value: object, place: str, reasoned: str, *, may_be_empty: bool = False) -> str:
        """Return a reason; complain about one that is no text, flag one that is missing or of the wrong length.

        Args:
            value: What stands where the reason should be.
            place: The criterion, or `overall`.
            reasoned: What it is the reason of: `score`, `choice`.
            may_be_empty: Whether the form of the answer has no place for a reason.
        """
        name = f"{place}.{self.rubric.reason.key}"
        reason = parse_text(value)
        if reason is None:
            self.complaints.append(f"{name} should be a text and is {quote_value(value)}")
            return ""
        words = len(reason.split())
        limits = self.rubric.reason.words
        if not words:
            if self.context.needs_texts:
                self.complaints.append(f"{name} is missing: the {reasoned} needs its reason")
            elif not may_be_empty:
                self.flags.append(Flag("empty_reason", name, why=f"the {reasoned} has no reason beside it"))
        elif limits and not limits[0] <= words <= limits[1]:
            why = f"{format_count(words, 'word')}; {limits[0]} to {limits[1]} were asked for"
            self.flags.append(Flag("reason_length", name, words, why))
        return reason

    def check_echo(self, document: Mapping[str, object]) -> None:
        """Flag an answer that repeats another label than that of the case; its keys are in plain spelling."""
        label, echo = self.context.label, self.rubric.echo
        echoed = document.get(normalize_key(echo)) if echo else None
        if label and echoed is not None and echoed != label:
            self.flags.append(Flag("label_differs", echo, echoed, f"the case was called {label}"))


class _ScoreReader(AnswerReader):
    """Reads one answer of scores."""

    def __init__(self, rubric: Rubric, context: AnswerContext) -> None:
        super().__init__(rubric, context)
        self.reworded_ids: list[str] = []
        self.near_scores: dict[str, str] = {}  # names at the top level that stand for the score of a criterion
        self.scores_by_letter: dict[str, list[Given]] = {}
        self.outside: dict[str, list[Said]] = {}  # answers to assertions where they are not read, by id
        self.outside_confidences: dict[str, list[Given]] = {}

    def read(self, document: Mapping[str, object]) -> Observations:
        document = self.normalize_keys("", document)
        self.near_scores = self._find_near_scores(document)
        self.scores_by_letter = list_scores_by_letter(document, self.rubric)
        given = self._blocks(document)
        read = [one for blocks in given for _, one in list_assertion_lists(blocks)]
        self.outside, self.outside_confidences = list_outside_answers(document, self.rubric, read)
        criteria = {
            criterion.key: self._criterion(criterion, blocks, document)
            for criterion, blocks in zip(self.rubric.criteria, given, strict=True)
            if blocks
        }
        findings = self._findings(document)
        self._check_other_places(document)
        self.check_echo(document)
        if self.reworded_ids:
            why = "the judge's wording of the question is not the rubric's; its own is kept"
            self.flags.append(Flag("question_differs", ", ".join(self.reworded_ids), why=why))
        measured = document.get("measurements") if self.context.may_abstain else None
        return Observations(
            criteria,
            findings,
            self._assessment(document),
            _read_claims(document, (*CLAIMS, *OVERALL_CLAIMS)),
            tuple(self.flags),
            {name: read_measurement(value) for name, value in measured.items()}
            if isinstance(measured, Mapping)
            else {},
            places=self._places(document, findings),
        )

    @property
    def _reads_places(self) -> bool:
        return self.context.may_abstain or bool(self.rubric.places)

    def _places(self, document: Mapping[str, object], findings: Mapping[str, tuple[str, ...]]) -> tuple[Place, ...]:
        """Return the places in an answer from which places are wanted. What is none is left out without a complaint:
        nothing is scored by them."""
        given = document.get("places")
        if not self._reads_places or not isinstance(given, list):
            return ()
        measured = document.get("measurements") if self.context.may_abstain else None
        known = {criterion.key for criterion in self.rubric.criteria} | {one.id for one in self.rubric.assertions()}
        known |= {f"{key}.{number}" for key, items in findings.items() for number in range(1, len(items) + 1)}
        known |= {*findings, *(measured if isinstance(measured, Mapping) else ())}
        alone = [image for image in self.rubric.images if not image.many]  # else a label could be that of several
        labels = {name.casefold(): image.role for image in alone for name in (image.role, image.label)}
        return tuple(place for place in read_places(given, labels) if place.at in known)

    def _agree(self, places: Iterable[Given], plain: Callable[[object], object]) -> object:
        """Return what all places say that say anything, `None` where none does; complain where they differ.

        Args:
            places: The places of one fact, with their values.
            plain: Brings a value into a form in which it can be compared.
        """
        given = [(place, value) for place, value in places if value is not None]
        if not given:
            return None
        first, value = given[0]
        for place, other in given[1:]:
            if plain(other) != plain(value):
                both = f"{first} ({quote_fact(value)}) and {place} ({quote_fact(other)})"
                self.complaints.append(f"{both} disagree, and should say the same")
        return value

    def _blocks(self, document: Mapping[str, object]) -> list[list[Given]]:
        """Return what the answer says of each criterion, in any place; complain about missing and unknown ones."""
        blocks: dict[str, list[Given]] = {criterion.key: [] for criterion in self.rubric.criteria}
        unknown: list[str] = []
        for prefix, container in self._containers(document, set(blocks)):
            of_sisters: list[str] = []
            for name, value in container.items():
                if name in blocks:
                    blocks[name].append((prefix + name, value))
                elif name in self.rubric.sisters:
                    of_sisters.append(name)
                else:
                    unknown.append(name)
            if of_sisters and not self.context.family:
                why = "criteria of sister rubrics were set aside"
                self.flags.append(Flag("sister_criteria", prefix.removesuffix("."), of_sisters, why))
        self.complaints += [f"the criterion {key!r} is missing" for key, given in blocks.items() if not given]
        self.complaints += [f"the criterion {quote_value(name)} is unknown" for name in unknown]
        return list(blocks.values())

    def _containers(self, document: Mapping[str, object], wanted: set[str]) -> list[Block]:
        """Return the objects that hold criteria; the last is the top level.

        Where other things may stand besides criteria, only what looks like a criterion is in the object.
        """
        results_key = self.rubric.results_key
        containers: list[Block] = []
        near = (name for name, value in document.items() if isinstance(value, Mapping) and holds_scores(name))
        published = (*CONTAINERS, normalize_key(results_key))
        for name in dict.fromkeys((*published, *near)):
            container = document.get(name)
            if isinstance(container, list):
                containers += list_criteria(name, container, wanted)
            if not isinstance(container, Mapping):
                continue
            container = self.normalize_keys(f"{name}.", container)
            if name in published and holds_criteria(container, wanted):
                containers.append((f"{name}.", container))
            else:
                unknown = {
                    key: value
                    for key, value in container.items()
                    if (name in published and has_score(value))
                    or (key not in wanted and is_unknown_score(key, value, self.rubric, name))
                }
                containers.append((f"{name}.", unknown))
        containers.append(("", self._top_level_criteria(document, wanted)))
        other = {setting.results for setting in self.rubric.settings.values()} - {results_key}
        elsewhere = ", ".join(
            sorted(name for name in other if holds_criteria(document.get(normalize_key(name)), wanted))
        )
        if elsewhere and any(holds_criteria(container, wanted) for _, container in containers):
            self.flags.append(Flag("other_setting", elsewhere, why="results of another setting, set aside"))
        elif elsewhere:
            self.complaints.append(f"the answer has {elsewhere}, which is for another setting, and no {results_key}")
        return containers

    def _top_level_criteria(self, document: Mapping[str, object], wanted: set[str]) -> dict[str, object]:
        """Return what looks like a criterion at the top level, where claims, findings and texts stand too."""
        criteria = {name: value for name, value in document.items() if name in wanted and may_be_criterion(value)}
        has_bare_scores = any(not isinstance(value, Mapping) for value in criteria.values())
        for name, value in document.items():
            if name in wanted or name in NO_CRITERIA or name.startswith(WHOLE) or name.endswith("_id"):
                continue
            if name in self.near_scores:
                continue
            is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            if has_score(value) or (has_bare_scores and is_number) or is_unknown_score(name, value, self.rubric):
                criteria[name] = value
        return criteria

    def _find_near_scores(self, document: Mapping[str, object]) -> dict[str, str]:
        """Return the scores at the top level whose names have the words of a criterion, by name: `accuracy_rating`."""
        criteria = {criterion.key: criterion for criterion in self.rubric.criteria}
        others = {*criteria, *self.rubric.sisters, *NO_CRITERIA}
        names = [name for name in document if name not in others and not name.startswith(WHOLE)]
        near = {name: key for name in names if (key := find_near_key(name, criteria)) and is_score_name(name, key)}
        return {name: key for name, key in near.items() if is_score_of(document[name], criteria[key])}

    def _criterion(
        self, criterion: Criterion, given: Sequence[Given], document: Mapping[str, object]
    ) -> ObservedCriterion:
        near = [(name, document[name]) for name, key in self.near_scores.items() if key == criterion.key]
        near += self.scores_by_letter.get(criterion.key, [])
        blocks = [
            (f"{place}.", self.normalize_keys(f"{place}.", value))
            for place, value in given
            if isinstance(value, Mapping)
        ]
        bare_scores = [(place, value) for place, value in given if not isinstance(value, Mapping)]
        plain = partial(plain_score, criterion=criterion)
        if not blocks:
            return self._bare_score(criterion, self._agree([*bare_scores, *near], plain))
        assertions = self._assertions(criterion, blocks) if criterion.assertions else {}
        scores = [*list_given(blocks, *SCORES), *bare_scores]
        if self.rubric.scoring.criterion_score == "given" and any(value is not None for _, value in scores):
            scores += [*near, *list_second_scores(criterion, blocks)]
        value = self._agree(scores, plain)
        abstained = self._abstains(value)
        score: int | Decimal | None = None
        if _any_applies(assertions) and self.rubric.scoring.criterion_score == "given":
            if not abstained:
                score = self._number(f"{criterion.key}.score", value, criterion.scale, criterion.whole)
        else:  # only a claim: code computes the score, or there is none
            score = parse_number(value)
        said = first_text(blocks, normalize_key(self.rubric.reason.key), *REASONS)
        reason = self.check_reason(said, criterion.key, "score")
        claims = {key: claim for _, block in reversed(blocks) for key, claim in _read_claims(block).items()}
        return ObservedCriterion(score, reason, assertions, claims, abstained)

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
            self.check_reason(None, criterion.key, "score")
        if self._abstains(value):
            return ObservedCriterion(None, abstained=True)
        return ObservedCriterion(self._number(criterion.key, value, criterion.scale, criterion.whole))

    def _number(self, place: str, value: object, scale: tuple[Number, Number], whole: bool) -> int | Decimal | None:
        number, problem, flag = parse_score(value, scale, whole)
        if problem:
            self.complaints.append(f"{place} {problem}")
        if flag:
            self.flags.append(Flag(flag, place, value, "read as a number all the same"))
        return number

    def _assertions(self, criterion: Criterion, blocks: Sequence[Block]) -> dict[str, ObservedAssertion]:
        known = {assertion.id: assertion for assertion in criterion.assertions}
        where = f"in {criterion.key}"
        found: dict[str, list[Block]] = {}
        lists = [given for given in list_given(blocks, *ASSERTION_LISTS) if isinstance(given[1], Mapping | list)]
        if not lists:
            self.complaints.append(f"the assertions of {criterion.key} are missing")
        for place, listed in lists:
            entries = self._entries(listed, criterion.key)
            for id_, entry in entries:
                found.setdefault(id_, []).append((f"{place}.{id_}.", entry))
            ids = Counter(id_ for id_, _ in entries)
            self.complaints += [f"the assertion {id_} {where} stands there twice" for id_ in known if ids[id_] > 1]
        self.complaints += [f"the assertion {id_} {where} is missing" for id_ in known if id_ not in found]
        self.complaints += [f"the assertion {quote_value(id_)} {where} is unknown" for id_ in found if id_ not in known]
        return {id_: self._assertion(known[id_], entries) for id_, entries in found.items() if id_ in known}

    def _entries(self, listed: object, place: str) -> Sequence[tuple[str, Mapping[str, object]]]:
        """Return assertions as pairs of id and object, from an object by id or a list."""
        pairs: list[tuple[str, object]] = []
        if isinstance(listed, Mapping):
            pairs = [(str(id_), entry) for id_, entry in listed.items()]
        elif isinstance(listed, list):
            pairs = [(str(entry.get("id")) if isinstance(entry, Mapping) else "?", entry) for entry in listed]
        entries: list[tuple[str, Mapping[str, object]]] = []
        for id_, entry in pairs:
            if isinstance(entry, str):
                entries.append((id_, {"answer": entry}))
            elif isinstance(entry, Mapping):
                entries.append((id_, entry))
                if str(entry.get("id", id_)) != id_:
                    which = f"the assertion {quote_value(id_)} in {place}"
                    self.complaints.append(f"{which} has another id inside, {quote_value(entry['id'])}")
            else:
                self.complaints.append(f"the assertion {quote_value(id_)} in {place} should be an object")
        return entries

    def _assertion(self, assertion: Assertion, entries: Sequence[Block]) -> ObservedAssertion:
        entries = [(prefix, self.normalize_keys(prefix, entry)) for prefix, entry in entries]
        answers = [*list_given(entries, "answer"), *list_near_answers(entries)]
        value = self._agree(answers, plain_answer)
        self._check_said(answers, [*list_second_answers(entries), *self.outside.get(assertion.id, [])])
        answer = self._answer(assertion, value)
        given = first_text(entries, "evidence")
        evidence = parse_text(given)
        if evidence is None:
            self.complaints.append(f"{assertion.id}.evidence should be a text and is {quote_value(given)}")
        elif not evidence.strip() and self.context.needs_texts and answer != "not_applicable":
            self.complaints.append(f"{assertion.id}.evidence is missing: the answer needs what is seen, and where")
        elif not evidence.strip():
            self.flags.append(Flag("empty_evidence", assertion.id, why="the answer has no evidence beside it"))
        question = parse_text(first_text(entries, "question")) or ""
        if question and _split_words(question) != _split_words(assertion.text):
            self.reworded_ids.append(assertion.id)
        confidence = None
        if self.rubric.scoring.criterion_score == "confidence" and answer != "abstained":
            confidences = [*list_given(entries, "confidence"), *self.outside_confidences.get(assertion.id, [])]
            value = self._agree(confidences, plain_number)
            confidence = self._number(f"{assertion.id}.confidence", value, (1, 5), True)
        return ObservedAssertion(answer, evidence or "", confidence, question)

    def _check_said(self, answers: Sequence[Given], again: Iterable[Said]) -> None:
        """Complain about what is said of an assertion in places that are not read, and differs from what is."""
        first = next(((place, value) for place, value in answers if value is not None), None)
        for said in again if first else ():
            if first and said.contradicts(plain_answer(first[1])):
                both = f"{first[0]} ({quote_fact(first[1])}) and {said.place} ({quote_fact(said.value)})"
                self.complaints.append(f"{both} disagree, and should say the same")

    def _answer(self, assertion: Assertion, value: object) -> str:
        if isinstance(value, bool):
            self.flags.append(Flag("answer_as_boolean", assertion.id, value, "read as Yes or No"))
        if self._abstains(value):
            return "abstained"
        answer = plain_answer(value)
        if answer not in ANSWERS.values():
            self.complaints.append(f"{assertion.id}.answer should be Yes or No and is {answer}")
            return "no"
        if answer == "not_applicable":
            if self.rubric.scoring.not_applicable is NotApplicable.REFUSE:
                self.complaints.append(f"{assertion.id}.answer is N/A, which this rubric does not allow")
            elif not offers_not_applicable(self.rubric, assertion):
                why = "N/A was not offered; the assertion leaves the denominator"
                self.flags.append(Flag("not_applicable", assertion.id, value, why))
        return answer

    def _findings(self, document: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
        keys = [finding.key for finding in self.rubric.findings]
        blocks: list[Block] = [("", document)]
        holder = document.get("findings")
        if isinstance(holder, Mapping):
            blocks.append(("findings.", self.normalize_keys("findings.", holder)))
        elif holder is not None and keys:
            self.complaints.append(f"findings should be an object with a list of texts for each of {', '.join(keys)}")
        claims = list_length_claims(document, keys, ("measurements",)) if keys else {}
        return {key: self._finding(key, blocks, claims[key]) for key in keys}

    def _check_other_places(self, document: Mapping[str, object]) -> None:
        """Complain about criteria and findings in objects where none are read: they may contradict those that are."""
        criteria = {criterion.key for criterion in self.rubric.criteria}
        findings = {finding.key for finding in self.rubric.findings}
        set_aside = {"findings", "measurements", *(one.results for one in self.rubric.settings.values())}
        if self._reads_places:
            set_aside.add("places")
        set_aside = {normalize_key(name) for name in set_aside}
        gated = {gate.finding for gate in self.rubric.scoring.gates} & findings
        for top, block in document.items():
            read = top in CONTAINERS or top in criteria or top in self.rubric.sisters
            if top in set_aside or (read and not findings):
                continue
            for place, name, value in walk_values(top, block, criteria):
                is_claim = place == "summary" and not isinstance(value, Mapping | list)
                is_criterion = not read and name in criteria and value is not None and may_be_criterion(value)
                is_finding = (name in findings and isinstance(value, list | str)) or (
                    isinstance(value, list) and find_near_key(name, findings) in gated
                )
                if (is_criterion or is_finding) and not is_claim:
                    self.complaints.append(f"{quote_value(name)} should not stand in {place}, where it is not read")

    def _finding(self, key: str, blocks: Sequence[Block], claims: Iterable[Given]) -> tuple[str, ...]:
        keys = [finding.key for finding in self.rubric.findings]
        places = [*list_given(blocks, key), *list_near_findings(blocks, key, keys)]
        value = self._agree(places, plain_finding)
        gated = any(gate.finding == key for gate in self.rubric.scoring.gates)
        if value is None and not gated:
            self.flags.append(Flag("finding_missing", key, why="the list was not given and counts as empty"))
            value = []
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self.complaints.append(f"{key} should be a list of texts and is {quote_value(value)}")
            return ()
        entries = tuple(text.strip() for text in value if text.strip())
        for place, claim in claims:
            if contradicts_length((place, claim), key, len(entries)):
                both = f"{key} ({quote_fact(list(entries))}) and {place} ({quote_value(claim)})"
                self.complaints.append(f"{both} disagree, and should say the same")
        return entries

    def _assessment(self, document: Mapping[str, object]) -> str:
        if not self.rubric.assessment:
            return ""
        value = first_text([("", document)], *ASSESSMENTS)
        assessment = parse_text(value)
        if assessment is None:
            self.complaints.append(f"assessment should be a text and is {quote_value(value)}")
        elif not assessment.strip():
            self.flags.append(Flag("assessment_missing", "assessment", why="the answer has no closing text"))
        return assessment or ""


def _any_applies(assertions: Mapping[str, ObservedAssertion]) -> bool:
    return not assertions or any(assertion.answer != "not_applicable" for assertion in assertions.values())


def _read_claims(block: Mapping[str, object], names: Sequence[str] = CLAIMS) -> dict[str, object]:
    """Return the numbers that a judge computed itself. Where its `summary` says something else, both are there."""
    claims = {key: block[key] for key in names if key in block and not isinstance(block[key], Mapping | list)}
    summary = block.get("summary")
    for key, value in summary.items() if isinstance(summary, Mapping) else ():
        if not isinstance(value, Mapping | list):
            claims[f"summary.{key}" if claims.get(key, value) != value else str(key)] = value
    return claims


_MAX_PLACES = 100


def read_places(given: Sequence[object], labels: Mapping[str, str]) -> tuple[Place, ...]:
    """Return what is a place: what lies there, boxes within the image, and an image that there is, if one is named.

    Args:
        given: What an answer has under `places`: `at`, `image`, and `boxes` or one `box`, whose ends are shares of
            width and height from the upper left corner, as a list or as `left`, `top`, `right`, `bottom`.
        labels: The roles of the images by what an answer may call them, in lower case.
    """
    places = []
    for one in given[:_MAX_PLACES]:
        if not isinstance(one, Mapping):
            continue
        at, image = parse_text(one.get("at")), (parse_text(one.get("image")) or "").strip()
        several = one.get("boxes")
        found = [read_box(box) for box in (several if isinstance(several, list) else [one.get("box")])]
        boxes = tuple(box for box in found if box is not None)
        if at and boxes and (not image or image.casefold() in labels):
            places.append(Place(at, boxes[:_MAX_PLACES], labels.get(image.casefold(), "")))
    return tuple(places)


def read_box(value: object) -> Box | None:
    """Return a box whose ends are shares of width and height; `None` for anything else, such as pixels."""
    if isinstance(value, Mapping):
        value = [value.get(name) for name in ("left", "top", "right", "bottom")]
    if not isinstance(value, list) or len(value) != 4:
        return None
    numbers = [parse_number(end) for end in value]
    if any(number is None or not 0 <= number <= 1 for number in numbers):
        return None
    left, top, right, bottom = (round(float(number), 4) for number in numbers if number is not None)
    return (left, top, right, bottom) if left < right and top < bottom else None


def read_measurement(value: object) -> dict[str, object]:
    """Return a measurement as an audit stores it: `value` (`None` where it has no meaning), `unit`, `sentence`."""
    parts = value if isinstance(value, Mapping) else {}
    number = parse_number(parts.get("value"))
    return {
        "value": None if number is None else float(number),
        "unit": parse_text(parts.get("unit")) or "",
        "sentence": parse_text(parts.get("sentence")) or "",
    }


def _split_words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text.casefold()).split()
