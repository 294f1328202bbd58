"""The format of `suite.yaml`: its keys, its JSON Schema, and problems that are found without loading anything.

The docstrings of the classes are the descriptions in the JSON Schema that `beholder init --schema` prints.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, structs

from beholder.errors import Problem, UsageError

if TYPE_CHECKING:
    from beholder.providers.prices import Price


# Their values are checked here rather than by msgspec, which does not say in which entry of a mapping one is wrong.
_Text = Annotated[Any, Meta(extra_json_schema={"type": "string"})]
_Texts = Annotated[Any, Meta(extra_json_schema={"anyOf": [{"type": "string"}, {"type": "array"}]})]
_Number = Annotated[Any, Meta(extra_json_schema={"type": "number"})]

_Count = Annotated[int, Meta(ge=1)]
_Positive = Annotated[float, Meta(gt=0)]
_NotNegative = Annotated[float, Meta(ge=0)]


class PriceEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens, for a model whose price no list knows; `cached` and `written` for input that is
    read from and put into a prompt cache."""

    input: _NotNegative
    output: _NotNegative
    cached: _NotNegative | None = None
    written: _NotNegative | None = None


class JudgeEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A judge with its parameters. The key is read from the variable that `key_variable` names. `base_urls`, in place
    of `base_url`, are servers that all serve this model, and share its requests. `structured_output: off` is for a
    server whose structured output does not work: it gets the schema in words."""

    judge: str
    base_url: str | None = None
    base_urls: tuple[str, ...] = ()
    key_variable: str | None = None
    params: dict[str, Any] = {}
    price: PriceEntry | None = None
    structured_output: Literal["auto", "off"] | bool = "auto"

    def __post_init__(self) -> None:
        if self.structured_output is False:  # YAML's `off`
            structs.force_setattr(self, "structured_output", "off")

    def given_price(self) -> Price | None:
        """Return the price that the suite gives, if any."""
        from beholder.providers.prices import Price

        if self.price is None:
            return None
        return Price(**{name: Decimal(str(amount)) for name, amount in dump_non_defaults(self.price).items()})

    def identity_key(self, image_params: Mapping[str, object]) -> tuple[object, ...]:
        """Return what distinguishes its answers from those of other judges.

        Args:
            image_params: Parameters that the suite sets for all images.

        Raises:
            SetupError: There can be no such judge.
        """
        from beholder.judges.factory import judge_identity

        params = {**image_params, **self.params}
        return judge_identity(self.judge, self.base_url, params, self.base_urls), params.get("max_side")

    def max_tokens(self) -> int | None:
        """Return the token limit among the parameters, if any."""
        given = (self.params.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"))
        return next((value for value in given if isinstance(value, int)), None)


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What a provider may be asked for, and how long is waited: for one call, for all of one case, and (`lease_s`) for
    another process at work on the same run that is not heard of any more."""

    requests_per_minute: _Positive | None = None
    tokens_per_minute: _Positive | None = None
    timeout_s: _Positive = 120.0
    total_timeout_s: _Positive | None = None
    lease_s: _Positive = 60.0


class SuiteFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a `suite.yaml` may say."""

    name: Annotated[str, Meta(description="What the run is called; the file's name unless set.")] = ""
    cases: Annotated[str, Meta(description="A case file: .jsonl, .csv, .tsv or .parquet.")] = ""
    pairs: Annotated[
        dict[str, _Text], Meta(description="In place of cases: for each image a pattern or a folder.")
    ] = {}
    fields: Annotated[dict[str, _Texts], Meta(description="Texts for every case that has none of its own.")] = {}
    limit: Annotated[_Count | None, Meta(description="Judge at most so many cases.")] = None
    only: Annotated[str, Meta(description="Judge the cases whose id fits this pattern: p1*/anime.")] = ""
    shuffle: Annotated[int | None, Meta(description="Judge in an order that this seed gives.")] = None
    rubric: Annotated[str, Meta(description="A rubric's name, folder or YAML file.")] = ""
    setting: Annotated[str, Meta(description="One of the rubric's settings; without it the images decide.")] = ""
    styles: Annotated[tuple[str, ...], Meta(description="Folders with styles of your own.")] = ()
    prompt: Annotated[str, Meta(description="A prompt file of your own, run as it is.")] = ""
    threshold: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="A case passes from this score (0 to 1).")
    ] = None
    gates: Annotated[tuple[str, ...], Meta(description="Findings that fail a case.")] = ()
    not_applicable: Annotated[
        Literal["accept", "offer", "refuse"] | None, Meta(description="What happens to N/A answers.")
    ] = None
    judges: Annotated[
        tuple[str | JudgeEntry, ...], Meta(description="Who judges: PROVIDER:MODEL; several form a jury.")
    ] = ()
    samples: Annotated[_Count, Meta(description="How often each judge is asked.")] = 1
    orders: Annotated[
        Literal["both", "random", "given"],
        Meta(description="In which orders two candidates are shown: both, one by the case, or as given."),
    ] = "both"
    probe: Annotated[bool, Meta(description="Ask models also about a crop of the edit: one more call for each.")] = (
        False
    )
    max_side: Annotated[_Count | None, Meta(description="Scale images down to this many pixels a side.")] = None
    detail: Annotated[str | None, Meta(description="The provider's image detail.")] = None
    allow_remote: Annotated[bool, Meta(description="Whether remote images (https, s3, gs) are fetched.")] = False
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=4096)], Meta(description="How many cases are under way at once.")
    ] = 32
    limits: Annotated[Limits, Meta(description="Rates and waiting times.")] = Limits()
    engine: Annotated[
        Literal["local", "ray"], Meta(description="Where the work is done: in this process, or on a Ray cluster.")
    ] = "local"
    address: Annotated[str, Meta(description="The Ray cluster; without one Ray is started on this machine.")] = ""
    budget: Annotated[_NotNegative | None, Meta(description="US dollars that are never passed.")] = None
    fail_under: Annotated[
        float | dict[str, _Number] | None,
        Meta(description="Exit code 1 below this mean: of score × 100, or by criterion on its own scale."),
    ] = None
    max_unscored: Annotated[
        int | str | None, Meta(description="How many cases may have no score: a number, or a share such as 2%.")
    ] = None
    tags: Annotated[tuple[str, ...], Meta(description="Words to find the run by.")] = ()
    ledger: Annotated[str | None, Meta(description="The ledger's file or URL.")] = None
    thumbnails: Annotated[bool, Meta(description="Keep a small copy of each image in the ledger.")] = True
    audit: Annotated[bool, Meta(description="Measure each pair of images, and flag what a model says against it.")] = (
        True
    )
    calibration: Annotated[
        str, Meta(description="A file of `beholder calibrate`: verdicts say what people would, too.")
    ] = ""

    def image_params(self) -> dict[str, object]:
        """Return what is set for all images, as parameters of a judge."""
        params = {"max_side": self.max_side, "detail": self.detail}
        return {name: value for name, value in params.items() if value is not None}


for _type in (SuiteFile, JudgeEntry):  # prepared, see rubrics/rubric.py
    msgspec.json.Decoder(_type)


def suite_schema() -> dict[str, Any]:
    """Return the JSON Schema of a `suite.yaml`, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(SuiteFile)}


def parse_thresholds(values: Iterable[str]) -> dict[str, float]:
    """Return `--fail-under 80 --fail-under accuracy=4` as the key `fail_under` has it."""
    found: dict[str, float] = {}
    for value in values:
        name, _, number = value.rpartition("=")
        try:
            found[name.strip() or "score"] = float(number)
        except ValueError:
            raise UsageError(
                f"A threshold (--fail-under or fail_under=) is a number or CRITERION=NUMBER, and {value!r} is neither."
            ) from None
    return found


def find_plain_problems(file: SuiteFile) -> Iterator[Problem]:
    """Return problems of single keys, and of keys that exclude one another."""
    if file.cases and file.pairs:
        yield Problem("`cases` and `pairs` are both given; keep one", "pairs")
    elif not file.cases and not file.pairs:
        yield Problem("no cases are given: name a case file, or give `pairs`", "cases")
    for key, texts in (("name", [file.name]), ("tags", file.tags)):
        for text in texts:
            if len(text) > 200 or not text.isprintable():
                yield Problem(f"{text[:60]!r} should be one line of at most 200 characters", key)
    for key, url, example in (
        ("ledger", file.ledger or "", "postgresql://localhost/runs"),
        ("address", file.address, "ray://head:10001"),
    ):
        if "://" in url and not _is_url(url):  # which is not quoted: it may hold a password
            yield Problem(f"is no valid URL; write one such as {example}", key)
    for role, pattern in file.pairs.items():
        if not isinstance(pattern, str):
            yield Problem("should be a pattern, such as photos/{name}.jpg", f"pairs.{role}")
    for name, text in file.fields.items():
        texts = text if isinstance(text, list | tuple) else [text]
        if not texts or not all(isinstance(one, str) for one in texts):
            yield Problem("should be a text or a list of texts", f"fields.{name}")
    if file.max_unscored is not None and not _UNSCORED.fullmatch(str(file.max_unscored)):
        yield Problem(f"{file.max_unscored!r} should be a number of cases, or a share such as 2%", "max_unscored")
    for key, number in _iterate_numbers(file):
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            yield Problem(f"{number!r} should be a number", key)


def _is_url(text: str) -> bool:
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


_UNSCORED = re.compile(r"\d{1,12}|\s*(\d{1,2}(\.\d{1,9})?|100)\s*%\s*")


def _iterate_numbers(file: SuiteFile) -> Iterator[tuple[str, object]]:
    """Return all numbers by key: msgspec accepts NaN and infinity, and we do not."""
    if isinstance(file.fail_under, dict):
        yield from ((f"fail_under.{name}", value) for name, value in file.fail_under.items())
    elif file.fail_under is not None:
        yield "fail_under", file.fail_under
    for key in ("budget", "threshold"):
        if getattr(file, key) is not None:
            yield key, getattr(file, key)
    yield from ((f"limits.{key}", one) for key, one in structs.asdict(file.limits).items() if one is not None)
    for position, judge in enumerate(file.judges):
        if isinstance(judge, JudgeEntry) and judge.price:
            yield from ((f"judges[{position}].price.{key}", one) for key, one in dump_non_defaults(judge.price).items())


_SECRETS = {
    *("key", "keys", "api_key", "apikey", "token", "access_token", "auth", "authorization", "bearer", "secret"),
    *("password", "x_api_key", "x_goog_api_key", "credentials"),
}
MAX_JUDGES = 100
_NO_KEYS = "a suite never holds a key: remove it and name the variable that does, `key_variable: OPENAI_API_KEY`"


def find_judge_problems(file: SuiteFile, handed_in: Collection[int] = ()) -> Iterator[Problem]:
    """Return problems of the judges: unknown names, bad URLs, secret keys in the file, duplicates.

    `handed_in` are the positions of judges that were given as objects: there is nothing to find out by their names, and
    they take no limits.
    """
    from beholder.judges.factory import split_spec

    if len(file.judges) > MAX_JUDGES:
        yield Problem(f"names {len(file.judges):,} judges; at most {MAX_JUDGES} are asked", "judges")
        return
    for key in JUDGE_LIMITS if handed_in else ():
        if getattr(file.limits, key) != getattr(Limits(), key):
            message = "is for judges that are given by name; a judge object keeps the limits that it was made with"
            yield Problem(message, f"limits.{key}")

    seen: set[tuple[object, ...]] = set()
    for position, judge in enumerate(file.judges):
        if isinstance(judge, str) or position in handed_in:  # those that are named are spelled out by now
            continue
        place = f"judges[{position}]"
        try:
            split_spec(judge.judge)
        except UsageError as error:
            yield Problem(str(error), place)
        yield from _find_url_problems(judge, place)
        variable = judge.key_variable
        if variable is not None and (not re.fullmatch(r"[A-Za-z_]\w{0,79}", variable) or variable.startswith("AIza")):
            yield Problem(
                "is not the name of a variable (it is not shown here, since it may be a key); " + _NO_KEYS,
                f"{place}.key_variable",
            )
        if judge.structured_output is True:
            yield Problem("there is 'auto' and 'off'; True is neither", f"{place}.structured_output")
        for key in _find_secret_keys(judge.params):
            yield Problem(f"{key!r}: {_NO_KEYS}", f"{place}.params")
        with suppress(UsageError):  # reported above, or when the judge is made
            identity = judge.identity_key(file.image_params())
            if identity in seen:
                yield Problem("stands here twice; use `samples` to ask one judge several times", place)
            seen.add(identity)


def _find_url_problems(judge: JudgeEntry, place: str) -> Iterator[Problem]:
    from beholder.providers.endpoint import normalize_base_url

    if judge.base_url is not None and judge.base_urls:
        yield Problem("`base_url` and `base_urls` are both given; keep one", f"{place}.base_urls")
    given = [(f"{place}.base_url", judge.base_url)] if judge.base_url else []
    given += [(f"{place}.base_urls[{position}]", url) for position, url in enumerate(judge.base_urls)]
    seen: set[str] = set()
    for key, url in given:
        try:
            checked = normalize_base_url(url)
        except UsageError as error:
            yield Problem(str(error), key)
            continue
        if checked in seen:
            yield Problem("stands here twice; give each server once", key)
        seen.add(checked)


def _find_secret_keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if str(key).lower().replace("-", "_") in _SECRETS:
                yield str(key)
            yield from _find_secret_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_secret_keys(inner)


def root_key(key: str) -> str:
    return re.split(r"[.\[]", key, maxsplit=1)[0]


# The flag of a key, where its name differs. `params` and `price` apply to every judge.
FLAG_NAMES = {
    "pairs": "pair",
    "fields": "set",
    "judges": "judge",
    "base_urls": "base_url",
    "params": "param",
    "gates": "gate",
    "tags": "tag",
    "limits.requests_per_minute": "requests_per_minute",
    "limits.tokens_per_minute": "tokens_per_minute",
    "limits.timeout_s": "timeout",
    "limits.total_timeout_s": "total_timeout",
    "limits.lease_s": "lease",
    "price.input": "price_input",
    "price.output": "price_output",
}
# Both words are understood in Python: that of the flag and that of the file.
KEYS_OF_FLAGS = {
    flag: key.removeprefix("limits.")
    for key, flag in FLAG_NAMES.items()
    if flag not in (key.removeprefix("limits."), "base_url", "price_input", "price_output")
}
_LISTS = ("pairs", "judges", "gates", "tags")


def rename_flags(given: Mapping[str, object]) -> dict[str, object]:
    """Return settings with the keys of a suite where they have the word of a flag: `gates` for `gate`.

    Raises:
        UsageError: Both words are given.
    """
    named: dict[str, object] = {}
    for word, value in given.items():
        key = KEYS_OF_FLAGS.get(word, word)
        if key in named:
            flag = next(flag for flag, of in KEYS_OF_FLAGS.items() if of == key)
            several = ", which may be a list" if key in _LISTS else ""
            raise UsageError(f"{flag} and {key} are the same; give one of them{several}.")
        named[key] = [value] if key in _LISTS and key != "judges" and isinstance(value, str) else value
    return named


JUDGE_KEYS = ("base_url", "base_urls", "key_variable", "params", "price", "structured_output")
JUDGE_LIMITS = ("requests_per_minute", "tokens_per_minute", "timeout_s")  # of `limits`, those that each judge has


def provider_of(judge: str) -> str:
    return judge.partition(":")[0]


def provider_with_base_url(providers: Sequence[str]) -> str:
    """Return whose judges a base URL is for: `openai:` ones if there are any, so that no other key is sent."""
    return "openai" if "openai" in providers or len(providers) != 1 else providers[0]


def judge_flag_key(key: str) -> str:
    """Return for `judges[0].base_url` the key by which a flag sets it for every judge; empty for other keys."""
    found = re.fullmatch(rf"judges\[\d+\]\.(({'|'.join(JUDGE_KEYS)})\b.*)", key)
    return found[1] if found else ""


def describe_flag_problem(problem: Problem) -> str:
    """Return the sentence that says what is wrong with a flag."""
    key = judge_flag_key(problem.key) or problem.key
    known = key if key in FLAG_NAMES else root_key(key)
    rest = key[len(known) :].lstrip(".")
    flag = FLAG_NAMES.get(known, known).replace("_", "-")
    return f"--{flag}{f' ({rest})' if rest else ''}: {_end_sentence(problem.message)}"


def describe_setting_problem(problem: Problem) -> str:
    """Return the sentence that says what is wrong with a keyword of the Python API."""
    key = judge_flag_key(problem.key) or re.sub(r"^judges(\[\d+\])?", "judge", problem.key).removeprefix("limits.")
    return f"{key}: {_end_sentence(problem.message)}"


def _end_sentence(message: str) -> str:
    return message if message.endswith(("?", ".")) else f"{message}."


def add_hint(problem: Problem) -> Problem:
    """Return the problem with a hint: the nearest known key, what to do in place of a secret, or the choices."""
    choices = _find_choices().get(judge_flag_key(problem.key) or problem.key)
    if choices and not problem.message.startswith("there is "):
        return Problem(_describe_wrong_choice(problem.message, choices), problem.key, problem.line)
    if problem.message != "is not a key that is known here":
        return problem
    parent, _, last = problem.key.rpartition(".")
    if last.lower().replace("-", "_") in _SECRETS:
        return Problem(_NO_KEYS, problem.key, problem.line)
    kinds: dict[str, type[Struct]] = {"": SuiteFile, "limits": Limits, "judges": JudgeEntry}
    kind = PriceEntry if parent.endswith(".price") else kinds.get(root_key(parent), SuiteFile)
    names = [one.name for one in structs.fields(kind)]
    # A flag or keyword may also be one that a file has inside of `limits` or `judges`.
    nested = {
        one.name: f"{place}.{one.name}"
        for place, inner in (("limits", Limits), ("judges[0]", JudgeEntry))
        for one in structs.fields(inner)
        if not parent and one.name not in names
    }
    if last in nested:
        hint = "did you mean 'judges'?" if last == "judge" else f"in a file it is {nested[last]}"
        return Problem(f"is not a key that is known here; {hint}", problem.key, problem.line)
    near = difflib.get_close_matches(last, [*names, *nested], n=1, cutoff=0.5)
    inside = f" (in a file: {nested[near[0]]})" if near and near[0] in nested else ""
    hint = f"did you mean {near[0]!r}{inside}?" if near else f"the keys are {', '.join(names)}"
    return Problem(f"is not a key that is known here; {hint}", problem.key, problem.line)


def _find_choices() -> dict[str, tuple[str, ...]]:
    """Return the choices of each key that has some."""
    found = {}
    for one in (*structs.fields(SuiteFile), *structs.fields(JudgeEntry)):
        kind = get_args(one.type)[0] if get_origin(one.type) is Annotated else one.type
        for member in (kind, *get_args(kind)):
            if get_origin(member) is Literal:
                found[one.name] = get_args(member)
    return found


def _describe_wrong_choice(message: str, choices: Sequence[str]) -> str:
    *most, last = map(repr, choices)
    there = f"there {'is' if len(choices) == 2 else 'are'} {', '.join(most)} and {last}"
    said = re.fullmatch(r"invalid enum value (.+)", message)
    return (
        f"{there}; {said[1]} is {'neither' if len(choices) == 2 else 'none of them'}" if said else f"{message}; {there}"
    )


def dump_non_defaults(value: Struct) -> dict[str, object]:
    """Return a struct as plain values, without those that are at their defaults."""
    given = {one.name: getattr(value, one.name) for one in structs.fields(value)}
    defaults = {one.name: one.default for one in structs.fields(value)}
    return {
        name: dump_non_defaults(one) if isinstance(one, Struct) else one
        for name, one in given.items()
        if one not in (defaults[name], {}, ())
    }
