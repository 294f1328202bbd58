"""`GraderConfig`: how a host that starts a process for each case says what is judged by whom; and images in texts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from beholder.integrations.shared import parse_places

if TYPE_CHECKING:
    from beholder.rubrics.rubric import Rubric
    from beholder.verdicts.verdict import Verdict

GRADER_KEYS = (
    *("rubric", "judge", "images", "fields", "roots", "threshold", "samples", "budget", "ledger", "name", "options"),
)
GRADER_LEDGER = "beholder.db"

_KINDS: tuple[tuple[str, Callable[[object], bool], str], ...] = (  # of the values that no other place checks
    ("options", lambda value: isinstance(value, Mapping), "a mapping by name"),
    ("roots", lambda value: _is_text_or_texts(value), "a folder or a list of folders"),
    ("ledger", lambda value: isinstance(value, str), "a text"),
)
_DATA = re.compile(r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+")
_MARKDOWN_IMAGE = re.compile(r"!\[[^\]]*\]\(\s*<?([^)>\s]+)")
_IMAGE_NAME = re.compile(r"[^\s<>]+\.(?:png|jpe?g|webp|gif|avif|heic|tiff?|bmp)", re.IGNORECASE)
_MAX_PATH = 4096


@dataclass(frozen=True)
class GraderConfig:
    """How a host that starts a process for each case says what is judged by whom. The processes of one evaluation share
    a run in a ledger: that of their `name`, else one for each process of the host that starts them.

    Attributes:
        values: The values of `GRADER_KEYS` that are given.
        where: What messages call the place that has them.
    """

    values: Mapping[str, Any]
    where: str

    @classmethod
    def read(cls, values: object, where: str) -> Self:
        """Return the configuration.

        Raises:
            UsageError: A key is unknown, a value is of a wrong type, no rubric is named, or a budget cannot be kept.
        """
        from beholder.api.options import suggest_name
        from beholder.errors import UsageError

        given = values if isinstance(values, Mapping) else {}
        for key in given:
            if key not in GRADER_KEYS:
                raise UsageError(f"{where} has {key!r}, which is no key of it; {suggest_name(key, GRADER_KEYS)}")
        if not isinstance(given.get("rubric"), str):
            raise UsageError(f"{where} needs a rubric, such as `rubric: edit-preservation`.")
        for key, is_right, wanted in _KINDS:
            if given.get(key) is not None and not is_right(given[key]):
                raise UsageError(f"`{key}` of {where} is {wanted}, and {given[key]!r:.60} is not.")
        if given.get("budget") is not None and not (given.get("name") and given.get("ledger", GRADER_LEDGER)):
            raise UsageError(
                f"`budget` of {where} needs a ledger and a `name` for the evaluation, `config: {{name: edits-1}}`: "
                "each case is judged by a process of its own, and only those that share a run keep one budget."
            )
        return cls(given, where)

    def load_rubric(self) -> Rubric:
        """Return the rubric. Raises `UsageError` for the name of several."""
        from beholder.api.options import Options

        return Options.of(self._options()).load_one_rubric(self.values["rubric"])

    def places(self, key: str, known: Sequence[str], pattern: re.Pattern[str], allowed: str) -> dict[str, str]:
        """Return where `images` or `fields` (`key`) are, as it says.

        Raises:
            UsageError: A name is not in `known`, or a place does not match.
        """
        from beholder.errors import UsageError

        pairs = dict(parse_places(self.values.get(key), f"`{key}` of {self.where}"))
        for name, place in pairs.items():
            if name not in known or not pattern.fullmatch(place):
                raise UsageError(
                    f"`{key}` of {self.where} says that {name} is {place!r}; there are {', '.join(known) or 'none'}, "
                    f"and each is {allowed}."
                )
        return pairs

    def find_output_image(self, image: str, *folders: str) -> str:
        """Return an image that an output names: see `file_access.find_output_image`. It may also be below `folders`, or
        the `roots` that the configuration names. Raises `UsageError`."""
        from beholder.integrations.file_access import find_output_image

        given = self.values.get("roots") or ()
        roots = (*folders, *([given] if isinstance(given, str) else given))
        return find_output_image(image, roots, f"`roots` of {self.where}")

    def judge(self, inputs: Mapping[str, object], host: str) -> tuple[Verdict, str | None]:
        """Judge a case, and return the verdict and the id of the run.

        Raises:
            UsageError: Something of the configuration or the inputs is wrong, or there is a budget, and a run of this
                name with other judges, samples or options, which has a budget of its own.
        """
        from beholder.api.options import Options, SessionSetup
        from beholder.api.session import Session

        values = self.values
        ledger, budget = values.get("ledger", GRADER_LEDGER), values.get("budget")
        setup = SessionSetup(
            values.get("judge"),
            ledger,
            values.get("name") or (None if ledger is None else self._name_run(host)),
            budget,
            samples=values.get("samples", 1),
            options=Options.of(self._options()),
            sole=budget is not None,
        )
        with Session._of(setup) as session:
            return session.judge(values["rubric"], **inputs), session.run_id

    def _options(self) -> dict[str, Any]:
        threshold = self.values.get("threshold")
        return {**(self.values.get("options") or {}), **({} if threshold is None else {"threshold": threshold})}

    def _name_run(self, host: str) -> str:
        """Return a name that is the same for all cases that one process of the host starts. Behind a wrapper, such as
        `uv run`, each case has a run of its own."""
        setup = {key: value for key, value in self.values.items() if key not in ("rubric", "images", "fields", "roots")}
        digest = hashlib.sha256(json.dumps(setup, sort_keys=True, default=str).encode()).hexdigest()[:6]
        return f"{host}-{time.strftime('%y%m%d')}-{os.getppid()}-{digest}"


def _is_text_or_texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value))


def list_images(text: str, more: re.Pattern[str] | None = None) -> list[str]:
    """Return the images in a text, in order: data URIs, what `more` finds, targets of Markdown images; or the one path
    or address that the text is."""
    text = text.strip()
    patterns = [pattern for pattern in (_DATA, more) if pattern is not None]
    inside = sorted((match.start(), match.group()) for pattern in patterns for match in pattern.finditer(text))
    if inside:
        return [image for _, image in inside]
    if named := _MARKDOWN_IMAGE.findall(text):
        return list(named)
    is_short = 0 < len(text) < _MAX_PATH and text.isprintable()
    is_address = text.startswith(("http://", "https://", "file://"))
    is_file = os.path.isfile(text) or _IMAGE_NAME.fullmatch(text) is not None  # what is missing is said of a name
    return [text] if is_short and (is_address or is_file) else []
