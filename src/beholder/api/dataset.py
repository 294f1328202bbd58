"""The verdicts of a run as a dataset of Hugging Face, with the images, texts and groups of their cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from beholder.cases.case import Case, list_texts
from beholder.errors import ImageError, SetupError
from beholder.images.prepare import digest
from beholder.images.source import is_remote, read_image
from beholder.ledger.export import ExportColumns, flatten_verdict
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import StoredVerdict
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    import datasets

_TYPES = {str: "string", float: "float64", int: "int64", bool: "bool"}
EncodedImage = Mapping[str, bytes | None]  # as `datasets` stores an image


def make_dataset(ledger: Ledger, run: str, verdicts: Iterable[StoredVerdict], *, images: bool) -> datasets.Dataset:
    """Return the dataset; see `Run.to_dataset`."""
    try:
        import datasets
    except ImportError:
        raise SetupError("A dataset needs the package datasets: pip install 'beholder[huggingface]'.") from None
    columns = ExportColumns()
    results: list[dict[str, Any]] = []
    inputs: list[dict[tuple[str, str], list[Any]]] = []  # by kind and name
    several: dict[tuple[str, str], bool] = {}  # whether a case has several images in the role, or texts of the name
    for stored in verdicts:
        columns.add(stored)
        results.append(dict(flatten_verdict(stored)))
        case = ledger.case(run, stored.verdict.case)
        found = _load_images(ledger, case, stored.verdict) if images else {}
        inputs.append({("image", role): listed for role, listed in found.items()})
        inputs[-1] |= {("text", name): list(list_texts(value)) for name, value in case.fields.items()}
        several |= {key: several.get(key, False) or len(listed) > 1 for key, listed in inputs[-1].items()}
    # What would hide a result, such as a text `outcome`, is called `text outcome`.
    names = {key: " ".join(key) if key[1] in columns.kinds else key[1] for key in sorted(several, key=itemgetter(0))}
    kinds = {"image": datasets.Image(), "text": datasets.Value("string")}
    features: dict[str, Any] = {"case": datasets.Value("string")}
    features |= {name: datasets.List(kinds[key[0]]) if several[key] else kinds[key[0]] for key, name in names.items()}
    for name, kind in columns.kinds.items():
        features.setdefault(name, datasets.Value(_TYPES[kind]))
    for row, given in zip(results, inputs, strict=True):
        row |= {names[key]: listed if several[key] else listed[0] for key, listed in given.items()}
    rows = [{name: row.get(name) for name in features} for row in results]
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def _load_images(ledger: Ledger, case: Case, verdict: Verdict) -> dict[str, list[EncodedImage | None]]:
    """Return the images of a case by role, `None` for one that is nowhere to be had."""
    judged: dict[str, list[str]] = {}
    for image in verdict.images:
        judged.setdefault(image.role, []).append(image.source_digest)
    return {
        role: [_load_image(ledger, str(one), at, judged.get(role, [])) for at, one in enumerate(case.sources(role))]
        for role in case.images
    }


def _load_image(ledger: Ledger, source: str, at: int, judged: Sequence[str]) -> EncodedImage | None:
    """Return the file at a place of a role if it is one that was judged, else the ledger's small copy."""
    if not is_remote(source) and not source.startswith(("data:", "bytes:")):
        try:
            data = read_image(source)
        except ImageError:
            data = b""
        if data and (not judged or digest(data) in judged):
            return {"bytes": data, "path": None}  # with a path that exists, `datasets` would drop the bytes
    thumbnail = ledger.thumbnail(judged[at]) if at < len(judged) else None
    return None if thumbnail is None else {"bytes": thumbnail, "path": None}
