"""What a value in an answer may look like."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from beholder.rubrics.model import Number

_NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,12})?")
_SHOWN = 60
_LARGEST = 10**60  # exact arithmetic with more digits is no longer cheap, and no judge means it
HUGE = 10**18  # past this a number is quoted as a text: not every reader of JSON can hold it


def as_number(value: object) -> int | Decimal | None:
    """A finite number that is given as one (or as a text that is one); else `None`. Booleans are no numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < _LARGEST else None
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return value if _reasonable(value) else None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        try:
            return Decimal(value.strip())
        except InvalidOperation:
            return None
    return None


def _reasonable(number: Decimal) -> bool:
    """Whether exact arithmetic with it is cheap: `1e-999999999` is finite, but its fraction would fill the memory."""
    return number.is_finite() and len(number.as_tuple().digits) <= 60 and -60 <= int(number.as_tuple().exponent) <= 60


def as_score(
    value: object, scale: tuple[Number, Number], whole: bool
) -> tuple[int | Decimal | None, str | None, str | None]:
    """A score, or what is wrong with it, and a flag when it was given in an odd form (`6.0`, `"6"`)."""
    low, high = scale
    allowed = f"{'a whole number' if whole else 'a number'} from {low:g} to {high:g}"
    if value is None:
        return None, f"is missing; it should be {allowed}", None
    number = as_number(value)
    if number is None:
        return None, f"should be {allowed} and is {shown(value)}", None
    if not Decimal(repr(low)) <= number <= Decimal(repr(high)) or (whole and number != int(number)):
        return None, f"should be {allowed} and is {shown(value)}", None
    odd = isinstance(value, str) or (whole and not isinstance(value, int))
    return (int(number) if whole else number), None, ("score_in_odd_form" if odd else None)


def as_text(value: object) -> str | None:
    """A text; nothing at all counts as an empty one; `None` for anything else."""
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def as_count(value: object) -> tuple[int, int] | None:
    """`"4/5"` as (4, 5)."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*/\s*(\d{1,4})\s*", value) if isinstance(value, str) else None
    return (int(match.group(1)), int(match.group(2))) if match else None


def shown(value: object) -> str:
    """A value as an error quotes it: short, on one line."""
    if value is None:
        return "missing"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > HUGE:
        return "a huge number"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = str(value) if isinstance(value, Decimal) else repr(value)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
