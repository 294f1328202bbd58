"""Text for people: untrusted text made safe to show, titles for keys, numbers, intervals, tables and run states.

Text from models, cases and files may hold control characters. `printable` makes it safe for a terminal, `escape_hidden`
for a page (escaping for HTML is left to the template). `humanize`, `column_title` and `flag_title` turn the keys of
criteria, columns and flags into what people read. Numbers are rounded half up; a missing one is a dash.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

# Every command imports this module to print: what only some functions need of other packages is imported in them.
if TYPE_CHECKING:
    from rich.table import Table

    from beholder.cases.case import FieldValue
    from beholder.ledger.types import RunRecord
    from beholder.statistics.bootstrap import Interval
    from beholder.verdicts.verdict import Verdict


MAX_REASON_CHARACTERS = 500  # of why a case has no score: enough for what to do about it, which stands at the end


def printable(text: str, *, lines: bool = False) -> str:
    """Return `text` with every control character replaced by a blank, so that a terminal shows what is there.

    Escape sequences and direction overrides are among them. Line breaks stay if `lines`.
    """
    return "".join(
        letter if (letter == "\n" and lines) or not unicodedata.category(letter).startswith("C") else " "
        for letter in text
    )


def print_text(text: str, *, error: bool = False) -> None:
    """Print `text`, made `printable`, with its line breaks; to standard error if `error`."""
    print(printable(text, lines=True), file=sys.stderr if error else sys.stdout, flush=True)


# Control characters, lone surrogates (UTF-8 cannot encode them), and what makes a browser show another text than the
# one that is there: direction overrides and marks, annotations.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")


def escape_hidden(text: str) -> str:
    """Return `text` with characters that hide or reorder letters written as escapes (`\\u202e`).

    Line breaks become `\\n`. Escaping for HTML is left to the template.
    """
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_hidden_values(value: object, longest: int | None = None) -> object:
    """Return JSON values with `escape_hidden` applied to all keys and texts, and texts cut to `longest` characters."""
    if isinstance(value, str):
        return escape_hidden(value if longest is None else truncate(value, longest))
    if value is None or isinstance(value, int | float):  # most values: asking for a `Mapping` takes long
        return value
    if isinstance(value, dict | Mapping):
        return {escape_hidden(str(key)): escape_hidden_values(inner, longest) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [escape_hidden_values(inner, longest) for inner in value]
    return value


def truncate(text: str, longest: int) -> str:
    """Return `text`, or its beginning and an ellipsis: never more than `longest` characters."""
    return text if len(text) <= longest else f"{text[: max(0, longest - 1)].rstrip()}…"


def script_json(value: object) -> str:
    """Return JSON to put into a `<script>` element: no text in it can end the element."""
    dumped = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return dumped.replace("<", "\\u003c")


def humanize(key: str) -> str:
    """Return a key as people read it: `Unchanged regions` for `unchanged_regions`."""
    return escape_hidden(key).replace("_", " ").capitalize()


def humanize_state(state: str) -> str:
    """Return the state of a verdict as people read it: `over budget` for `over_budget`."""
    return state.replace("_", " ")


# The fields that say what was asked for, the most telling first.
INSTRUCTION_FIELDS = ("instruction", "prompt", "question", "input", "style")


def split_instruction(fields: Mapping[str, FieldValue]) -> tuple[tuple[str, str] | None, dict[str, FieldValue]]:
    """Return the field that says what was asked for, by name and text, and the others; `None` where there is none."""
    for name in INSTRUCTION_FIELDS:
        text = fields.get(name)
        if isinstance(text, str) and text.strip():
            return (name, text), {other: value for other, value in fields.items() if other != name}
    return None, dict(fields)


def criterion_titles(rubrics: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return the titles of the criteria of rubrics, by column name.

    Args:
        rubrics: Rubrics as a run records them.

    Returns:
        A title under `KEY` and one with the rubric's name under `RUBRIC.KEY`, the column where several rubrics have it.
    """
    titles: dict[str, str] = {}
    for rubric in rubrics:
        criteria = rubric.get("criteria")
        for criterion in criteria if isinstance(criteria, list | tuple) else ():
            if isinstance(criterion, Mapping) and isinstance(criterion.get("key"), str):
                title = escape_hidden(str(criterion.get("title") or "")) or humanize(criterion["key"])
                titles[criterion["key"]] = title
                titles[f"{rubric.get('rubric', '')}.{criterion['key']}"] = (
                    f"{title}, {escape_hidden(str(rubric.get('rubric', '')))}"
                )
    return titles


def column_title(name: str, titles: Mapping[str, str]) -> str:
    """Return the title of a column that is no assertion: of `titles`, or `Score, RUBRIC` for `RUBRIC.score`."""
    rubric, _, what = name.rpartition(".")
    if name in titles:
        return titles[name]
    return (
        f"{humanize(what)}, {escape_hidden(rubric)}"
        if rubric and what in ("score", "passed", "grade")
        else humanize(name)
    )


def use_minus_sign(text: str) -> str:
    """Return `text` with a minus sign in place of the hyphen before numbers."""
    return _NEGATIVE.sub("−", text)


FLAG_TITLES = {
    "abstained": "not measured",
    "alpha_over_background": "transparency filled",
    "answer_as_boolean": "true or false for Yes or No",
    "assessment_missing": "no closing text",
    "below_guidance": "score below its guidance",
    "colour_profile_ignored": "colour profile ignored",
    "converted_from_cmyk": "colours converted from CMYK",
    "converted_to_srgb": "colours converted to sRGB",
    "cut_off": "cut off, asked again",
    "empty_answer": "empty answer, asked again",
    "empty_evidence": "no evidence given",
    "criterion_flip": "criterion follows the order",
    "empty_reason": "no reason given",
    "finding_missing": "list of findings missing",
    "gate": "failed by a gate",
    "generic_style": "style not known, general questions",
    "jurors_failed": "jurors without a score",
    "jury_split": "jurors are split",
    "label_differs": "case called by another name",
    "measured_not_seen": "measured, not seen",
    "not_applicable": "answered N/A",
    "not_audited": "not checked against the pixels",
    "not_probed": "edit not looked at closely",
    "order_flip": "answer follows the order",
    "order_lean": "better in one order only",
    "other_setting": "another setting set aside",
    "partial": "only part of it applied",
    "pixels_disagree": "pixels disagree",
    "probe_failed": "closer look at the edit failed",
    "prose_around_json": "text around the answer",
    "question_differs": "question put in other words",
    "rating_changed": "rating changed later",
    "reason_length": "reason too short or too long",
    "reduced_to_8_bit": "reduced to 8 bits",
    "repair_asked": "asked to correct its answer",
    "rotated_upright": "image turned upright",
    "score_in_odd_form": "score in an odd form",
    "sister_criteria": "criteria of other rubrics set aside",
    "schema_ignored": "server ignored the form of answers",
    "strength_ignored": "strength beside a tie",
    "strength_missing": "no strength given",
    "structured_output_unavailable": "server cannot hold answers to a form",
    "tie": "jurors tied",
}
_FIRST_FRAME = re.compile(r"first_frame_of_(\w+)")
_ENCODER_QUALITY = re.compile(r"(jpeg|webp)_quality_(\d+)")


def describe_preferences(counts: Mapping[str, int]) -> str:
    """Return what preferences came to (`RubricTally.count_preferences`) in a line; empty where there are none."""
    if not counts:
        return ""
    # In a jury one juror may flip and the others decide, so flips are not among the ties.
    flips = f", {counts['flipped']:,} with a flip" if counts["flipped"] else ""
    ties = "1 tie" if counts["tie"] == 1 else f"{counts['tie']:,} ties"
    failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
    wins = f"first better in {counts['first']:,}, second in {counts['second']:,}"
    return f"{wins}, {ties}, both bad in {counts['both_bad']:,}{flips}{failed}"


_MAX_NAMED, _MAX_REASONS = 3, 10


def name_filled(filled: Sequence[str]) -> str:
    """Return the inputs of a rating that were missing, for people."""
    more = f" and {len(filled) - _MAX_NAMED} more" if len(filled) > _MAX_NAMED else ""
    return f"{', '.join(filled[:_MAX_NAMED])}{more} missing here, taken as in the median case"


def describe_calibration(filled: Mapping[str, int], missing: Mapping[str, int]) -> list[str]:
    """Return sentences for people on the ratings of many cases.

    Args:
        filled: How many ratings have a median in place of an input, by input.
        missing: How many ratings could not be predicted, by the reason.
    """
    lines = [f"not calibrated, {count:,}: {why}" for why, count in Counter(missing).most_common(_MAX_REASONS)]
    if filled:
        most = Counter(filled).most_common(_MAX_REASONS)
        more = f" and {len(filled) - _MAX_REASONS} more" if len(filled) > _MAX_REASONS else ""
        named = ", ".join(f"{name} in {count:,}" for name, count in most)
        lines.append(f"calibrated with the median in place of what was missing: {named}{more}")
    return lines


def case_caption(fields: Mapping[str, FieldValue], longest: int = 200) -> str:
    """Return the text by which a case is recognized in a list: what was asked for, else the output or any text; cut."""
    instruction, others = split_instruction(fields)
    value = instruction[1] if instruction else others.get("output") or next(iter(others.values()), "")
    return truncate(" ".join((value if isinstance(value, str) else " ".join(value)).split()), longest)


def describe_measured(verdict: Verdict) -> str:
    """Return what is known of a verdict that was measured in part, as `3 No, 7 of 23 measured`; else nothing."""
    if verdict.coverage is None:
        return ""
    measured = f"{verdict.coverage.measured:,} of {verdict.coverage.of:,}"
    if verdict.coverage.what == "assertions":
        return f"{verdict.no_count:,} No, {measured} measured"
    return f"{measured} {verdict.coverage.what} measured"


def winner_title(winner: str) -> str:
    """Return the winner of a preference for people."""
    return {"first": "first is better", "second": "second is better", "both_bad": "both bad"}.get(winner, winner)


def flag_title(key: str) -> str:
    """Return a few words in lower case for a flag; for an unknown one its key without underscores."""
    if key in FLAG_TITLES:
        return FLAG_TITLES[key]
    if match := _FIRST_FRAME.fullmatch(key):
        return f"first frame of {match[1].upper()}"
    if match := _ENCODER_QUALITY.fullmatch(key):
        return f"sent as {match[1].upper()} of quality {match[2]}"
    return key.replace("_", " ")


MAX_REPORT_MB = 25.0  # default size limit of an HTML report; 1 MB is a million bytes


def format_number(value: float | None, places: int = 3) -> str:
    """Return a number such as `0.650`; a dash for None."""
    if value is None:
        return "–"
    from beholder.verdicts.verdict import round_half_up

    return f"{round_half_up(float(value), places) + 0.0:.{places}f}"  # + 0.0: no minus before a zero


def format_mean(key: str, value: float | None, fail_under: Mapping[str, float]) -> str:
    """Return the mean of a criterion or of `score` over a run, with the digits that it takes to agree with thresholds.

    Args:
        key: The criterion, or `score`.
        value: Its mean; a score is from 0 to 1.
        fail_under: The thresholds of the run, that of `score` on a scale to 100.
    """
    if value is None:
        return format_number(None)
    from beholder.rubrics.rubric import to_fraction
    from beholder.verdicts.verdict import format_beside, to_plain_number

    limits = [to_fraction(limit) / (100 if key == "score" else 1) for name, limit in fail_under.items() if name == key]
    return format_beside(float(value), map(to_plain_number, limits), 3)


def format_scored_mean(mean: float | None, scored: int, asked: int) -> str:
    """Return the mean score of a run with how many of its verdicts it is of: `0.238, 9 of 73 scored`.

    Args:
        mean: The mean; None without a score.
        scored: How many verdicts have a score.
        asked: How many there are, without those that nobody was asked for.
    """
    if mean is None:
        return f"none of {asked:,} scored" if asked else format_number(None)
    return format_number(mean) + (f", {scored:,} of {asked:,} scored" if scored < asked else "")


def format_interval(estimate: Interval, places: int = 3) -> str:
    """Return `0.650 (0.591 to 0.702)`; only the value where there is no interval, `not defined` where no value."""
    if estimate.value is None:
        return "not defined"
    value = format_number(estimate.value, places)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({format_number(estimate.low, places)} to {format_number(estimate.high, places)})"


def numbers_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table without borders: the first column is text, aligned left; the others are numbers, aligned right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for at, header in enumerate(headers):
        table.add_column(Text(printable(header)), justify="left" if at == 0 else "right", no_wrap=at > 0)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def print_table(table: Table, *, error: bool = False) -> None:
    """Print a table, to standard error if wanted; on a narrow terminal its lines wrap rather than lose digits."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, stderr=error)
    wanted = console.measure(table, options=console.options.update(width=1000)).maximum
    console.width = max(console.width, wanted)
    console.print(table)


REVIEW_OPEN = "open"


def run_state(record: RunRecord, not_asked: int = 0) -> str:
    """Return the state of a run: that of the ledger, except that an unfinished review is `open`, not `interrupted`, and
    a run that has come to its end is `over_budget`, not `finished`, if cases were `not_asked`."""
    from beholder.ledger.types import FINISHED, INTERRUPTED
    from beholder.verdicts.verdict import Outcome

    if record.state == FINISHED and not_asked:
        return str(Outcome.OVER_BUDGET)
    return REVIEW_OPEN if record.state == INTERRUPTED and record.is_review else record.state


def format_done(done: int, total: int, not_asked: int) -> str:
    """Return how many verdicts of a run there are, as `13 of 120, 107 not asked (over budget)`.

    Args:
        done: All verdicts, also those of cases that were not asked.
        total: How many there are to give.
        not_asked: Those that are `over_budget`.
    """
    return f"{done - not_asked:,} of {total:,}" + (f", {not_asked:,} not asked (over budget)" if not_asked else "")
