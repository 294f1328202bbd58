"""`JudgedCase`: one case of a run with its verdicts, and whether its images have changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from beholder.cases.case import Case, number_repeats
from beholder.errors import ImageError
from beholder.images.prepare import digest
from beholder.images.source import is_remote, read_image
from beholder.verdicts.answer import Transcript
from beholder.verdicts.verdict import Verdict


@dataclass(frozen=True, slots=True)
class CaseImage:
    """An image of a case that was judged; `since` says whether it has changed since."""

    role: str
    source: str
    since: str


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A case of a run with its verdicts, one by each rubric.

    Attributes:
        run: The id of the run.
        case: The case.
        images: Its images, and whether they have changed.
        verdicts: One by each rubric.
        transcripts: By rubric, every turn of the conversations with the judges; see `Ledger.transcripts`.
    """

    run: str
    case: Case
    images: tuple[CaseImage, ...]
    verdicts: tuple[Verdict, ...]
    transcripts: Mapping[str, tuple[Transcript, ...]] = field(default_factory=dict, repr=False)

    def to_dict(self, *, transcripts: bool = False) -> dict[str, object]:
        """Return JSON values, as `beholder show RUN CASE --json` prints them; with `transcripts`, also those."""
        values: dict[str, object] = {
            "run": self.run,
            "case": self.case.id,
            "fields": dict(self.case.fields),
            "groups": dict(self.case.groups),
            "images": [{"role": image.role, "source": image.source, "since": image.since} for image in self.images],
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
        }
        if transcripts:
            values["transcripts"] = {name: [asdict(one) for one in each] for name, each in self.transcripts.items()}
        return values

    def __repr__(self) -> str:
        outcomes = ", ".join(f"{verdict.rubric} {verdict.outcome}" for verdict in self.verdicts)
        return f"<JudgedCase {self.case.id!r} of run {self.run}: {outcomes}>"

    def _repr_html_(self) -> str:
        from markupsafe import Markup

        from beholder.reports.charts import html_result, html_table

        table = html_table(("image", "source", "since"), [(one.role, one.source, one.since) for one in self.images])
        cards = [Markup(verdict._repr_html_()) for verdict in self.verdicts]
        return html_result(f"{self.case.id} in run {self.run}", [table, *cards])


def check_images(case: Case, verdicts: Sequence[Verdict]) -> Iterator[CaseImage]:
    """Yield the images of a case, and whether each file has changed since it was judged."""
    digests: dict[str, set[str]] = {}
    for verdict in verdicts:
        for image in verdict.images:
            digests.setdefault(image.role, set()).add(image.source_digest)
    names = number_repeats(role for role, _ in case.list_images())
    for name, (role, source) in zip(names, case.list_images(), strict=True):
        yield CaseImage(name, str(source), _describe_change(str(source), digests.get(role, set())))


def _describe_change(source: str, digests: set[str]) -> str:
    if source.startswith(("data:", "bytes:")):
        return "was handed over, not a file"
    if is_remote(source):
        return "on the web, not looked at again"
    if not digests:
        return "was not judged"
    try:
        return "unchanged" if digest(read_image(source)) in digests else "has changed since"
    except ImageError as error:
        return f"cannot be compared: {error}"
