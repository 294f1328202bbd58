"""`Options`: how cases are judged beyond rubric, judges and samples; and how the inputs of a call become a case."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from beholder.cases.case import Case, id_problem, make_case_id, quote_names
from beholder.errors import CaseError, UsageError
from beholder.images.image import regular_file
from beholder.judges.base import INSTRUMENTS, Judge
from beholder.judges.model import ModelJudge
from beholder.ledger.database import is_postgresql, resolve_address
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import load_rubrics, select_probes
from beholder.rubrics.rubric import OrderChoice, Rubric, override_scoring
from beholder.rubrics.validate import RESERVED_NAMES
from beholder.rubrics.yaml_files import check_types
from beholder.runs.limits import RunLimits
from beholder.runs.suite_file import (
    JUDGE_KEYS,
    JUDGE_LIMITS,
    JudgeEntry,
    SuiteFile,
    add_hint,
    describe_setting_problem,
    find_judge_problems,
    find_plain_problems,
    provider_of,
    provider_with_base_url,
    rename_flags,
)
from beholder.runs.suite_judges import make_judge, require_price, reserve_costs

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger
    from beholder.verdicts.calibration import Calibration

RubricLike = Rubric | str | os.PathLike[str]
JudgeLike = Judge | str

_LIMIT_KEYS = ("timeout_s", "total_timeout_s", "requests_per_minute", "tokens_per_minute")


def _or_none(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or is_right(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_list(value: object, is_right: Callable[[object], bool]) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(is_right, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# The options by the kind of their values, and what that is called in messages. Bounds are checked by `make_settings`.
_KINDS: tuple[tuple[tuple[str, ...], Callable[[object], bool], str], ...] = (
    (("base_url", "key_variable", "detail", "prompt_text", "not_applicable"), _or_none(_is_text), "a text"),
    (("setting", "structured_output", "orders"), _is_text, "a text"),
    (("prompt", "calibration"), _or_none(_is_path), "the path of a file"),
    (("timeout_s",), _is_number, "a number"),
    (("total_timeout_s", "requests_per_minute", "tokens_per_minute", "threshold"), _or_none(_is_number), "a number"),
    (("max_side",), lambda value: isinstance(value, int | None) and not isinstance(value, bool), "a whole number"),
    (("params",), lambda value: isinstance(value, Mapping), "a mapping by name"),
    (("price",), lambda value: isinstance(value, Mapping | None), "a mapping by name"),
    (("base_urls", "gates"), lambda value: _is_list(value, _is_text), "a list of texts"),
    (("styles",), lambda value: _is_list(value, _is_path), "a list of folders"),
    (
        ("allow_http_key", "allow_remote", "audit", "thumbnails", "cache", "probe"),
        lambda value: isinstance(value, bool),
        "True or False",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How cases are judged, beyond rubric, judges and samples.

    A mapping with the same keys is accepted wherever `Options` are. The names are those of `suite.yaml`, where some are
    keys of a judge (`base_url`, `base_urls`, `key_variable`, `params`, `price`, `structured_output`) or of `limits`
    (those of time and rate); `cache` and `prompt_text` are for Python only, and no file can set `allow_http_key`.

    Attributes:
        base_url: Where a compatible server answers. If the judges are of several providers, it is for the `openai:`
            ones, so that no other key is sent there.
        base_urls: In place of `base_url`, several servers that share the requests.
        key_variable: The environment variable that holds the key.
        allow_http_key: Send a key over plain http also beyond this machine and private networks.
        params: Model parameters, such as `{"temperature": 0}`.
        price: US dollars per million tokens, for a model whose price no list knows: `{"input": 1.25, "output": 10}`.
        structured_output: `auto`, or `off` for a server whose structured output does not work: it gets the schema of
            the answer in words.
        timeout_s: How long one call may take, in seconds.
        total_timeout_s: How long one judge may take for one case, over all its calls, in seconds; and how long a case
            waits for an answer that another session or process asks for.
        requests_per_minute: The most requests to each judge.
        tokens_per_minute: The most tokens to each judge.
        max_side: Scale images down to this many pixels a side.
        detail: The provider's image detail: low, high, auto.
        prompt: A file with a prompt of your own, run as it is.
        prompt_text: In place of `prompt`, its text.
        setting: One of the rubric's settings; without it the images decide.
        styles: Folders with styles of your own.
        orders: In which orders the candidates of a preference are shown: `both`, `random` (one of them) or `given`.
            Other rubrics have none: without one that is a preference, anything but `both` is refused.
        probe: Ask models also the questions of the rubric's probe, about a crop of the edit: one more call for each.
        threshold: The score (0 to 1) from which a case passes.
        gates: Findings that fail a case.
        not_applicable: What happens to N/A answers: accept, offer or refuse.
        allow_remote: Fetch remote images (https, s3, gs).
        audit: Measure a pair of images beside what a model says of them.
        calibration: A file of `beholder calibrate`: verdicts then also say how people would rate.
        thumbnails: Keep a small copy of each image in the ledger.
        cache: Use answers that were paid for already; otherwise every case is asked again.

    Raises:
        UsageError: A value is of a wrong type, or `prompt` and `prompt_text` are both given.
    """

    base_url: str | None = None
    base_urls: Sequence[str] = ()
    key_variable: str | None = None
    allow_http_key: bool = False
    params: Mapping[str, object] = field(default_factory=dict)
    price: Mapping[str, float] | None = None
    structured_output: str = "auto"
    timeout_s: float = 120.0
    total_timeout_s: float | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_side: int | None = None
    detail: str | None = None
    prompt: str | os.PathLike[str] | None = None
    prompt_text: str | None = None
    setting: str = ""
    styles: Sequence[str | os.PathLike[str]] = ()
    orders: str = OrderChoice.BOTH
    probe: bool = False
    threshold: float | None = None
    gates: Sequence[str] = ()
    not_applicable: str | None = None
    allow_remote: bool = False
    audit: bool = True
    calibration: str | os.PathLike[str] | None = None
    thumbnails: bool = True
    cache: bool = True

    def __post_init__(self) -> None:
        for names, is_right, wanted in _KINDS:
            for name in names:
                if not is_right(value := getattr(self, name)):
                    raise UsageError(f"{name}: should be {wanted}, not {value!r:.60}.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise UsageError(f"threshold: should be between 0 and 1, not {self.threshold}.")
        if self.orders not in tuple(OrderChoice):
            raise UsageError(f"orders: should be one of {', '.join(OrderChoice)}, not {self.orders!r}.")
        if self.prompt is not None and self.prompt_text is not None:
            raise UsageError("prompt (a file) and prompt_text (the text itself) are both given; keep one.")

    @classmethod
    def of(cls, given: Options | Mapping[str, object] | None) -> Options:
        """Return options as they are, or those of a mapping. Raises `UsageError` for a wrong key or value."""
        if given is None or isinstance(given, Options):
            return given or cls()
        if not isinstance(given, Mapping):
            raise UsageError(f"options are Options or a mapping, and {type(given).__name__} is neither.")
        names = [one.name for one in fields(cls)]
        given = rename_flags(given)
        for name in given:
            if name not in names:
                raise UsageError(f"There is no option {name!r}; {suggest_name(str(name), names)}")
        return cls(**given)  # type: ignore[arg-type]  # the types of the values are checked there

    def read_prompt(self) -> Options:
        """Return the options with the text of the prompt file in place of its name. Raises `UsageError`."""
        if self.prompt is None:
            return self
        try:
            text = regular_file(self.prompt).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UsageError(f"The prompt {os.fspath(self.prompt)!r} cannot be read: {reason}.") from None
        return replace(self, prompt=None, prompt_text=text)

    def given_for_models(self) -> list[str]:
        """Return the names of the options that are set and need a model."""
        return [name for name in JUDGE_KEYS if getattr(self, name) not in (None, "auto", (), {})]

    def without_model(self) -> Options:
        """Return the options without those with which models are made, for judges that are none."""
        usual = Options()
        return replace(self, **{name: getattr(usual, name) for name in (*JUDGE_KEYS, *JUDGE_LIMITS)})

    def style_folders(self) -> list[Path]:
        return [Path(folder) for folder in self.styles]

    def load_rubrics(self, rubrics: RubricLike | Sequence[RubricLike]) -> tuple[Rubric, ...]:
        """Return the rubrics that a name, a path or a list of them stands for, with the scoring of these options.

        Raises:
            RubricError: With everything that is wrong in a file.
            UsageError: There is no such rubric, two have the same name, or none has the `probe` that is asked for.
        """
        named = list(rubrics) if isinstance(rubrics, Iterable) and not isinstance(rubrics, str) else [rubrics]
        loaded: list[Rubric] = []
        for one in named:
            if not isinstance(one, Rubric | str | os.PathLike):
                raise UsageError(
                    f"A rubric is a Rubric, its name or its path, and {type(one).__name__} is none of them."
                )
            loaded += [one] if isinstance(one, Rubric) else load_rubrics(one)
        if not loaded:
            raise UsageError("At least one rubric is needed.")
        names = [rubric.name for rubric in loaded]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"The rubric {twice!r} stands there twice; give each once.")
        if self.orders != OrderChoice.BOTH and not any(rubric.is_preference for rubric in loaded):
            raise UsageError(
                "orders: is for rubrics that ask which of two is better, such as edit-preference, not "
                f"{', '.join(names)}."
            )
        scored = [override_scoring(one, self.threshold, self.gates, self.not_applicable) for one in loaded]
        return select_probes(scored, self.probe)

    def load_one_rubric(self, rubric: RubricLike, criterion: str | None = None) -> Rubric:
        """Return the rubric that a name or a path stands for; see `load_rubrics`.

        Raises:
            UsageError: It stands for several, or has no such criterion.
        """
        loaded = self.load_rubrics(rubric)
        if len(loaded) > 1:
            parts = ", ".join(one.name for one in loaded)
            raise UsageError(f"{str(rubric)!r} stands for several rubrics ({parts}); choose one of them.")
        keys = [one.key for one in loaded[0].criteria]
        if criterion is not None and criterion not in keys:
            raise UsageError(f"The rubric {loaded[0].name} has no criterion {criterion!r}; it has {', '.join(keys)}.")
        return loaded[0]

    def make_composer(self, rubric: Rubric) -> Composer:
        """Return what makes the briefs of a rubric. Raises `UsageError` if the prompt file cannot be read."""
        prompt = self.read_prompt().prompt_text
        return Composer(
            rubric, prompt=prompt, setting=self.setting, style_folders=self.style_folders(), orders=self.orders
        )


def as_judges(judge: JudgeLike | Sequence[JudgeLike] | None) -> list[JudgeLike]:
    """Return the judges of a call, the instruments if there is none. Raises `UsageError` for what is no judge."""
    named = [INSTRUMENTS] if judge is None else [judge] if isinstance(judge, JudgeLike) else judge
    if not isinstance(named, Iterable) or isinstance(named, Mapping):
        raise UsageError(
            f"A judge is a name such as 'openai:gpt-5-mini', or a Judge, and {type(judge).__name__} is none."
        )
    judges = list(named)
    if not judges:
        raise UsageError("At least one judge is needed.")
    for one in judges:
        if not isinstance(one, JudgeLike):
            raise UsageError(
                f"A judge is a name such as 'openai:gpt-5-mini', or a Judge, and {type(one).__name__} is none."
            )
    return judges


def make_settings(
    judges: Sequence[JudgeLike],
    options: Options,
    samples: int = 1,
    concurrency: int = 32,
    budget: Decimal | None = None,
) -> SuiteFile:
    """Return the settings of a session as a suite has them. A judge that was handed in is there by its name only.

    Raises:
        UsageError: A value is of a wrong type or out of bounds, or the judges and options do not fit together.
    """
    check_model_options(judges, options)
    entries = [_make_entry(judge, judges, options) for judge in judges]
    given: dict[str, object] = {
        "judges": entries,
        "samples": samples,
        "concurrency": concurrency,
        "budget": None if budget is None else float(budget),
        "limits": {name: getattr(options, name) for name in _LIMIT_KEYS},
        "styles": [os.fspath(one) for one in options.styles],
        "gates": options.gates,
        "calibration": "" if options.calibration is None else os.fspath(options.calibration),
    }
    names: tuple[str, ...] = ("max_side", "detail", "setting", "threshold", "not_applicable", "allow_remote", "audit")
    names += ("thumbnails", "orders", "probe")
    given |= {name: getattr(options, name) for name in names}
    try:
        settings = msgspec.convert(given, SuiteFile)
    except msgspec.ValidationError:
        problems = [add_hint(problem) for problem in check_types(given, SuiteFile).problems]
    else:
        problems = [problem for problem in find_plain_problems(settings) if problem.key not in ("cases", "pairs")]
        handed_in = {place for place, one in enumerate(judges) if not isinstance(one, str)}
        problems += find_judge_problems(settings, handed_in)
    if problems:
        raise UsageError("\n".join(dict.fromkeys(map(describe_setting_problem, problems))))
    return settings


def _make_entry(judge: JudgeLike, judges: Sequence[JudgeLike], options: Options) -> dict[str, object]:
    """Return a judge as an entry of a suite, with the options that are for models."""
    if not isinstance(judge, str):
        return {"judge": judge.name} | describe_judge(judge) | ({"price": options.price} if options.price else {})
    if judge == INSTRUMENTS:
        return {"judge": judge}
    models = [one for one in judges if isinstance(one, str) and one != INSTRUMENTS]
    with_base_url = provider_of(judge) == provider_with_base_url(sorted({provider_of(one) for one in models}))
    values = {name: getattr(options, name) for name in JUDGE_KEYS if with_base_url or not name.startswith("base_url")}
    return {"judge": judge} | {name: value for name, value in values.items() if value}


def describe_judge(judge: Judge) -> dict[str, object]:
    """Return what is known of a judge that was handed in, as an entry of a suite has it: place, parameters, price."""
    if not isinstance(judge, ModelJudge):
        return {}
    settings = judge.settings
    price = None
    if settings.price is not None:
        amounts = {name: getattr(settings.price, name) for name in ("input", "output", "cached", "written")}
        price = {name: float(amount) for name, amount in amounts.items() if amount is not None}
    urls = {"base_urls": list(settings.base_urls)} if settings.base_urls else {"base_url": settings.base_url}
    return {**urls, "params": dict(settings.params), "price": price}


def check_model_options(judges: Sequence[JudgeLike], options: Options, name_option: Callable[[str], str] = str) -> None:
    """Raise `UsageError` for options that none of the judges, or more than one provider, would take.

    Args:
        judges: The judges.
        options: The options.
        name_option: Returns what an option is called in messages; the command line names its flags.
    """
    given = options.given_for_models()
    models = [judge for judge in judges if isinstance(judge, str) and judge != INSTRUMENTS]
    if any(not isinstance(judge, str) for judge in judges):
        given = [name for name in given if name != "price"]  # with a budget, a judge that was handed in needs one
    if given and not models:
        named = "no judge was named" if judges == [INSTRUMENTS] else "no judge is given by its name"
        raise UsageError(
            f"{name_option(given[0])} is for a model, and {named}: name one ({name_option('judge')}), such as "
            "openai:gpt-5-mini."
        )
    providers = sorted({provider_of(judge) for judge in models})
    if options.key_variable and len(providers) > 1:
        raise UsageError(f"{name_option('key_variable')} is for one provider, and the judges are of several.")
    if (options.base_url or options.base_urls) and provider_with_base_url(providers) not in providers:
        listed = ", ".join(providers)
        raise UsageError(f"{name_option('base_url')} is for one provider, and the judges are of {listed}.")


CASE_ATTRIBUTES = {"id": "an id", "groups": "groups"}


def make_case(rubrics: Sequence[Rubric], case: Case | None, inputs: Mapping[str, object]) -> Case:
    """Return the case that is judged: the one that is given, or one made of the inputs of a call.

    Inputs are sorted by what the rubrics declare: image roles and fields. A case made of inputs gets its id from the
    file of its last image and a digest of its content, so that the same inputs are the same case.

    Raises:
        UsageError: Neither or both are given, or an input is not declared.
        CaseError: A value is of a wrong type, or the id cannot be one.
    """
    roles = {image.role for rubric in rubrics for image in rubric.images}
    names = {field.name for rubric in rubrics for field in rubric.fields}
    for name in inputs:
        if name not in roles | names:
            raise UsageError(_describe_unknown_input(name, rubrics, sorted(roles | names)))
    if case is not None:
        if not isinstance(case, Case):
            instead = "for many: judge_many"
            if isinstance(case, Mapping):
                instead = "give its entries as keywords (**case), or a Case"
            raise UsageError(f"One case is judged at a time, a Case, and this is a {type(case).__name__}; {instead}.")
        if problem := id_problem(case.id):
            raise CaseError(f"The case {case.id[:60]!r} cannot be judged: {problem}.")
        if inputs:
            raise UsageError(f"A case and inputs are both given ({', '.join(inputs)}); keep one.")
        return case
    if not inputs:
        raise UsageError(f"There is nothing to judge: give a Case, or {_list_inputs(rubrics)}.")
    images: dict[str, Any] = {name: value for name, value in inputs.items() if name in roles}
    texts: dict[str, Any] = {name: value for name, value in inputs.items() if name in names and name not in roles}
    made = Case("case", images, texts)
    return replace(made, id=make_case_id(made.images, made.fields))


def _describe_unknown_input(name: str, rubrics: Sequence[Rubric], known: Sequence[str]) -> str:
    if name in CASE_ATTRIBUTES:
        return f"{name!r} is no input; give a Case, which has {CASE_ATTRIBUTES[name]}."
    if name == "case":
        return "A case is given by position, as a Case: judge(rubric, case)."
    if name in RESERVED_NAMES:
        return f"{name!r} is no input here; a Session takes it when it is made."
    close = difflib.get_close_matches(name, [*known, *RESERVED_NAMES], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{rubrics[0].name} takes no {name!r}; it takes {_list_inputs(rubrics)}.{hint}"


def _list_inputs(rubrics: Sequence[Rubric]) -> str:
    roles = dict.fromkeys(image.role for rubric in rubrics for image in rubric.images)
    names = dict.fromkeys(field.name for rubric in rubrics for field in rubric.fields)
    fields_ = f" and the fields {quote_names(names)}" if names else ""
    return f"the images {quote_names(roles)}{fields_}"


def suggest_name(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: the nearest one, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known) or 'none'}."


Judges = JudgeLike | Sequence[JudgeLike] | None


OptionsLike = Options | Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """The arguments of a session, from which another process opens it again.

    Attributes:
        sole: Refuse a name that a run of other judges, samples or options has. For hosts that promise a budget for all
            that is judged under one name: such a run would have a budget of its own.
    """

    judge: Judges = None
    ledger: str | os.PathLike[str] | Ledger | None = None
    name: str | None = None
    budget: float | Decimal | None = None
    concurrency: int = 32
    samples: int = 1
    options: Options = field(default_factory=Options)
    sole: bool = False

    def __post_init__(self) -> None:
        for given, kinds, wanted in (
            (self.name, str | None, "name is a text"),
            (self.budget, int | float | Decimal | None, "budget is a number of US dollars"),
        ):
            if not isinstance(given, kinds) or isinstance(given, bool):
                raise UsageError(f"{wanted}, and {type(given).__name__} is not.")
        if self.name is not None and self.ledger is not None:
            from beholder.ledger.runs import check_name

            check_name(self.name)  # before a ledger is made
        options = self.options.read_prompt()  # read once, and not in another process
        # Whatever the working directory is later, and in another process.
        styles = [os.path.abspath(folder) for folder in options.styles]
        calibration = os.path.abspath(options.calibration) if options.calibration else options.calibration
        object.__setattr__(self, "options", replace(options, styles=styles, calibration=calibration))
        if isinstance(self.ledger, str | os.PathLike):
            address = resolve_address(self.ledger)
            address = address if is_postgresql(address) else os.path.abspath(address)
            object.__setattr__(self, "ledger", address)

    def for_other_process(self) -> SessionSetup:
        """Return the setup as another process can use it: that opens a ledger of its own."""
        return replace(self, ledger=getattr(self.ledger, "address", self.ledger))


def make_session_judges(
    named: Sequence[JudgeLike], settings: SuiteFile, limits: RunLimits, options: Options
) -> tuple[list[Judge], list[Judge]]:
    """Return all judges, and those of them that were made here, by name. Their limits are put into `limits`."""
    judges: list[Judge] = []
    made: list[Judge] = []
    for given, entry in zip(named, settings.judges, strict=True):
        assert isinstance(entry, JudgeEntry)
        require_price(entry, settings.budget)
        if isinstance(given, str):
            judges.append(make_judge(entry, settings, limits, allow_http_key=options.allow_http_key))
            made.append(judges[-1])
        else:
            reserve_costs(given, entry, limits)
            judges.append(given)
    return judges, made


def compute_session_key(
    judges: Sequence[Judge], samples: int, options: Options, calibration: Calibration | None
) -> str:
    """Return a digest of what decides which verdicts come out: a session continues a run only if it is the same."""
    files = [file for folder in options.style_folders() for file in sorted(folder.glob("*.yaml")) if file.is_file()]
    parts = [
        [[judge.identity, judge.sizing.max_side] for judge in judges],
        samples,
        [
            options.prompt_text,
            options.setting,
            options.threshold,
            [*options.gates],
            options.not_applicable,
            options.audit,
        ],
        [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in files],
        calibration.digest if calibration is not None else None,
    ]
    if options.orders != OrderChoice.BOTH:
        parts.append(options.orders)
    if options.probe:
        parts.append("probe")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
