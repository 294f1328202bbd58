"""How values are stored: compressed JSON, digests, texts that every database takes, facets, redaction of keys.

JSON is compressed with zlib and a preset dictionary of the words that verdicts, answers and cases have in common: an
edit verdict takes 530 bytes with it and 940 without, and no longer to pack. Importing this module loads no database
library.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec

from beholder.errors import LedgerError, UsageError
from beholder.ledger.types import AnswerKey
from beholder.verdicts.answer import Transcript
from beholder.verdicts.verdict import Flag, Outcome, Verdict

# Part of the file format: nothing that was written can be read without these very bytes, so they never change. A better
# dictionary would be a second one, told from this one by the checksum that zlib stores in front of the data. What is
# most common comes last, where zlib reaches it with the shortest distance.
ZLIB_DICTIONARY = (
    b'{"criteria":{"accuracy":{"assertions":{"A1":{"answer":"Yes","evidence":"The "},"score":4,"reason":"T'
    b'he "},"unchanged_regions":{"justification":"The ","score":6}},"assessment":"","strengths":[],"improv'
    b'ements":[],"hallucinations":[],"missing_elements":[]}```json\n{"criteria": {"unchanged_regions": {"ju'
    b'stification": "The ", "score": 6}, "global_consistency": {"justification": "The ", "score": 6}, "ide'
    b'ntity_preservation": {"justification": "The ", "score": 6}}}{"id":"","images":{"original":"/home/","'
    b'restyled":"/home/","image":"/home/","input":"/","edited":".png"},"fields":{"style":"","instruction":'
    b'"make the ","output":"","expected_output":""}}"tie""repaired""empty_reason""reason_length""not_appli'
    b'cable""question_differs""interrupted""over_budget""unreadable""unreachable""invalid""truncated""filt'
    b'ered""refused","answer":"","jury":{"answered":,"failed":,"spread":{"score":},"agreement":,"jurors":['
    b'{"judge":"","sample":0,"outcome":"scored","score":0.,"criteria":{},"detail":"","model":""}]},"visual'
    b'_accuracy":"completeness":"clarity":"relevance":"usefulness":"exceptional":"accuracy":{"score":4,"re'
    b'ported":4,"scale":[1,5],"weight":1.0,"reason":"","yes":4,"no":1,"not_applicable":0,"assertions":[{"i'
    b'd":"A1","question":"","answer":"no","evidence":"","confidence":null},{"id":"C1","question":"Does the'
    b' ","answer":"yes","evidence":"","confidence":null},{"id":"R1","question":"Is the ","answer":"yes","e'
    b'vidence":"The ","confidence":null},{"id":"U1"},{"id":"E1"}]},"findings":{"hallucinations":[],"missin'
    b'g_elements":[],"strengths":[],"improvements":[]},"flags":[{"flag":"","at":"","said":null,"why":""}],'
    b'"corrections":[{"at":"accuracy.score","said":5,"stands":4,"why":"computed from the answer"}],{"case"'
    b':"","rubric":"edit-quality","rubric":"edit-fidelity","rubric":"description","rubric":"restyle","rubr'
    b'ic":"edit-preservation","rubric_version":"1.0","judge":"anthropic:claude-","judge":"google:gemini-",'
    b'"judge":"openai:gpt-","outcome":"scored","setting":"offline","setting":null,"style":"","setting":"on'
    b'line","style":null,"model":"","detail":"","criteria":{"scale_realism":"spatial_relationship":"textur'
    b'e_and_detail":"image_quality":"colour_and_lighting":"seamlessness":"alignment":"completeness":"plaus'
    b'ibility":"unchanged_regions":{"score":5,"reported":5,"scale":[1,7],"weight":1,"reason":"The ","yes":'
    b'0,"no":0,"not_applicable":0,"assertions":[]},"global_consistency":{"score":6,"reported":6,"scale":[1'
    b',7],"weight":1,"reason":"","yes":0,"no":0,"not_applicable":0,"assertions":[]},"identity_preservation'
    b'":{"score":5,"reported":5,"scale":[1,7],"weight":1,"reason":"","yes":0,"no":0,"not_applicable":0,"as'
    b'sertions":[]}},"total":17.5,"max_total":25.0,"percentage":70.0,"grade":"B","score":0.7,"score_derive'
    b'd":false,"partial":false,"passed":true,"total":null,"max_total":null,"percentage":null,"grade":null,'
    b'"score":0.,"score_derived":true,"partial":false,"passed":null,"findings":{},"assessment":"","reporte'
    b'd":{},"flags":[],"corrections":[],"measurements":{},"jury":null,"images":[{"role":"original","role":'
    b'"restyled","role":"image","role":"target","role":"input","digest":"","width":1600,"height":1200,"byt'
    b'es":,"scaled":true,"media_type":"image/png","scaled":false,"media_type":"image/jpeg","source_digest"'
    b':"","source_width":1600,"source_height":1200,"source_format":"png"},{"role":"edited","source_format"'
    b':"jpeg"}],"usage":{"input_tokens":,"output_tokens":,"cached_tokens":0},"cost_usd":"0.00","latency_s"'
    b':,"attempts":1,"brief_digest":""}'
)


_ZLIB_LEVEL = 6  # level 1 saves 4 to 10 µs a verdict and costs 7 to 13 % of the space; 9 makes nothing smaller
# Keys younger than the dictionary, which does not shorten them. Leaving them out where they are empty saves 40 bytes a
# verdict, and makes room for a fifth verdict in a page of SQLite.
_OMITTED_IF_EMPTY = ("coverage", "total_range", "calibrated")
_OMITTED_IF_EMPTY_OF_CRITERIA = ("abstained", "score_range")
_VERDICT_DECODER = msgspec.json.Decoder(Verdict)
_MAX_PLAIN_BYTES = 256 * 1024 * 1024  # more than anything that is stored; a few damaged bytes may stand for gigabytes
DAMAGED_MESSAGE = "The ledger is damaged: {} cannot be read; `beholder doctor` says how much of it is sound."


def pack(value: object) -> bytes:
    """Encode a JSON value and compress it."""
    return _compress(_encode_json(value))


def unpack(data: bytes, what: str) -> object:
    """Invert `pack`. Raises `LedgerError`, with `what` it was about, if the bytes are damaged."""
    try:
        return json.loads(_decompress(data))
    except (zlib.error, ValueError, RecursionError):
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None


def pack_text(text: str) -> bytes:
    return _compress(text.encode("utf-8", "surrogatepass"))


def unpack_text(data: bytes, what: str) -> str:
    try:
        return _decompress(data).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None


def pack_verdict(verdict: Verdict, *, answer: bool) -> bytes:
    """Encode a verdict with its exact cost, and with its raw answer if `answer` is true."""
    values = verdict.to_dict()
    for name in _OMITTED_IF_EMPTY:
        if not values[name]:
            del values[name]
    criteria = values["criteria"]
    assert isinstance(criteria, dict)
    for result in criteria.values():
        for name in _OMITTED_IF_EMPTY_OF_CRITERIA:
            if not result[name]:
                del result[name]
    if verdict.cost_usd is not None:
        values["cost_usd"] = str(verdict.cost_usd)
    if answer and verdict.answer:
        values["answer"] = verdict.answer
    return pack(values)


def unpack_verdict(data: bytes, what: str) -> Verdict:
    try:
        plain = _decompress(data)
    except zlib.error:
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None
    try:
        return _VERDICT_DECODER.decode(plain)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # Half a surrogate pair or a huge number: rare, and msgspec refuses them, while json takes them.
    try:
        values = json.loads(plain)
        if isinstance(values, dict):
            return Verdict.from_dict(values)
    except (ValueError, UsageError, RecursionError):
        pass
    raise LedgerError(DAMAGED_MESSAGE.format(what))


class _AssertionExtract(msgspec.Struct, frozen=True, gc=False):
    id: str
    question: str
    answer: str


class _CriterionExtract(msgspec.Struct, frozen=True, gc=False):
    score: float | None
    scale: tuple[float, float]
    assertions: tuple[_AssertionExtract, ...] = ()


class _RatingExtract(msgspec.Struct, frozen=True, gc=False):
    value: float | None = None
    why: str = ""
    filled: tuple[str, ...] = ()


class _FlagExtract(msgspec.Struct, frozen=True, gc=False):
    flag: str


class _JurorExtract(msgspec.Struct, frozen=True, gc=False):
    model: str | None = None


class _JuryExtract(msgspec.Struct, frozen=True, gc=False):
    jurors: tuple[_JurorExtract, ...] = ()


class _PreferenceExtract(msgspec.Struct, frozen=True, gc=False):
    winner: str | None = None
    flipped: bool = False


class VerdictExtract(msgspec.Struct, frozen=True, gc=False):
    """The fields of a verdict that a tally and a comparison need. Decoding only these takes a third of the time."""

    case: str
    rubric: str
    judge: str
    outcome: str
    style: str | None = None
    model: str | None = None
    detail: str = ""
    criteria: dict[str, _CriterionExtract] = {}
    calibrated: dict[str, _RatingExtract] = {}
    grade: str | None = None
    score: float | None = None
    passed: bool | None = None
    flags: tuple[_FlagExtract, ...] = ()
    jury: _JuryExtract | None = None
    preference: _PreferenceExtract | None = None
    usage: dict[str, int | None] = {}
    cost_usd: Decimal | None = None
    latency_s: float | None = None
    attempts: int = 0

    @property
    def missing_score_reason(self) -> str:
        """As that of a `Verdict`."""
        return "" if self.score is not None else f"{self.outcome}, {self.detail}"


class StoredExtract(NamedTuple):
    """The part of a `StoredVerdict` that a tally and a comparison need; a whole verdict where only that can be read."""

    verdict: VerdictExtract | Verdict
    groups: Mapping[str, str]
    reused: bool


_EXTRACT_DECODER = msgspec.json.Decoder(VerdictExtract)
msgspec.json.Decoder(Transcript)  # prepared, see rubrics/rubric.py


def unpack_extract(data: bytes) -> VerdictExtract | None:
    """Decode what is counted of a verdict; `None` where only `unpack_verdict` can read it, or says why not."""
    try:
        return _EXTRACT_DECODER.decode(_decompress(data))
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def pack_flags(flags: Sequence[Flag]) -> bytes | None:
    return pack([asdict(flag) for flag in flags]) if flags else None


def unpack_flags(data: bytes | None, what: str) -> tuple[Flag, ...]:
    try:
        return msgspec.convert(unpack(data, what), tuple[Flag, ...]) if data else ()
    except msgspec.ValidationError:
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None


def pack_transcripts(transcripts: Sequence[Transcript], known_answer: str) -> bytes | None:
    """Encode transcripts; answers that equal `known_answer`, which is stored with the verdict, are left out."""
    if not transcripts:
        return None
    values = [asdict(transcript) for transcript in transcripts]
    for value in values:
        if not value["part"]:
            del value["part"]
        for turn in value["turns"]:
            if turn["answer"] == known_answer:
                turn["answer"] = None
    return pack(values)


def unpack_transcripts(data: bytes | None, known_answer: str, what: str) -> tuple[Transcript, ...]:
    """Invert `pack_transcripts`."""
    if data is None:
        return ()
    values = unpack(data, what)
    try:
        for value in values if isinstance(values, list) else []:
            for turn in value["turns"]:
                if turn["answer"] is None:
                    turn["answer"] = known_answer
        return msgspec.convert(values, tuple[Transcript, ...])
    except (msgspec.ValidationError, LookupError, TypeError):
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None


class NegativeAmount(ValueError):
    """An amount of money in a ledger is less than nothing, which is damage."""


def parse_amount(text: str | None) -> Decimal:
    """Return an amount of money.

    Raises:
        NegativeAmount: It is less than nothing.
        ValueError, TypeError, ArithmeticError: It is damaged in another way.
    """
    amount = Decimal(text or "")
    if not amount.is_finite():
        raise ValueError("not an amount")
    if amount < 0:
        raise NegativeAmount("an amount below nothing")
    return amount


def parse_time(text: str) -> datetime:
    """Return a time with its zone. Raises `ValueError` or `TypeError` if it is damaged."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return moment


def to_json_text(value: object) -> str:
    """Encode a JSON value for a text column."""
    return _encode_json(value).decode("utf-8")


def storable_text(text: str) -> str:
    """Return a text that every database takes: half a surrogate pair, which UTF-8 cannot encode, and NUL, which
    PostgreSQL cannot store, are escaped. Applying it twice changes nothing more.

    Raises:
        LedgerError: It is no text. Ids and names come from callers, who may give anything.
    """
    if not isinstance(text, str):
        raise LedgerError(f"An id, a name or a tag is a text, and {text!r:.60} is none.")
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def storable_json(text: str) -> str:
    """Return JSON whose texts are `storable_text`: PostgreSQL accepts no other, and SQLite would not find them."""
    if "\\u" not in text:
        return text
    return to_json_text(_storable_value(json.loads(text)))


def digest_bytes(digest: str) -> bytes:
    """Return the 32 bytes of a SHA-256 in hex; any other text encoded as it is."""
    if len(digest) == 64:
        try:
            return bytes.fromhex(digest)
        except ValueError:
            pass
    return digest.encode("utf-8", "surrogatepass")


def key_id(key: AnswerKey) -> bytes:
    """Return the 16 bytes that identify a key."""
    return _short_digest(key.brief_digest, key.judge, str(key.sample))


def answer_id(brief_digest: str, text: str) -> bytes:
    """Return the 16 bytes that identify an answer by its brief and its text."""
    return _short_digest(brief_digest, text)


def split_ids(joined: bytes) -> list[bytes]:
    return [joined[at : at + 16] for at in range(0, len(joined), 16)]


def _short_digest(*parts: str) -> bytes:
    encoded: Sequence[bytes] = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in encoded)).digest()[:16]


def _compress(data: bytes) -> bytes:
    compressor = zlib.compressobj(_ZLIB_LEVEL, zdict=ZLIB_DICTIONARY)
    return compressor.compress(data) + compressor.flush()


def _decompress(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=ZLIB_DICTIONARY)
    plain = decompressor.decompress(data or b"", _MAX_PLAIN_BYTES)  # NULL where a body was is damage, too
    if not decompressor.eof or decompressor.unused_data:
        raise zlib.error("truncated")
    return plain


def _encode_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, OverflowError):  # half a surrogate pair, a mapping that is no dict
        return json.dumps(value, default=_json_default).encode("ascii")


def _storable_value(value: object) -> object:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable_text(key): _storable_value(inner) for key, inner in value.items()}
    return [_storable_value(inner) for inner in value] if isinstance(value, list) else value


def _json_default(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


# The keys of a facets object: what lists are filtered by, beside outcome, score, grade and result.
FACET_SCORES, FACET_FAILED, FACET_FLAGS, FACET_STYLE, FACET_WINNER = "scores", "no", "flags", "style", "winner"
FACET_BOUND = "bound"  # the highest score that is possible, where too little was measured for one


def encode_facets(verdict: Verdict) -> str | None:
    """Return JSON with the scores by criterion, the ids of failed assertions, the flags, the style, the winner, and
    the highest possible score where too little was measured for one.

    Empty entries are left out; `None` if all are empty.
    """
    facets: dict[str, object] = {}
    failed: list[str] = []
    scores = {}
    for key, result in verdict.criteria.items():
        if result.score is not None:
            scores[key] = result.score
        if result.no:
            failed += [assertion.id for assertion in result.assertions if assertion.answer == "no"]
    if scores:
        facets[FACET_SCORES] = scores
    if failed:
        facets[FACET_FAILED] = failed
    if verdict.flags:
        facets[FACET_FLAGS] = list(dict.fromkeys(flag.flag for flag in verdict.flags))
    if verdict.style:
        facets[FACET_STYLE] = verdict.style
    if verdict.preference is not None and verdict.preference.winner is not None:
        facets[FACET_WINNER] = verdict.preference.winner
    if verdict.outcome is Outcome.UNMEASURED and verdict.score_range is not None:
        facets[FACET_BOUND] = verdict.score_range[1]
    return storable_json(to_json_text(facets)) if facets else None


REDACTED = "[redacted]"

# A digit is required, which every key has: `sk-learn-photos` is a name.
_KEY_SHAPES = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|pplx|nvapi|hf|r8|ghp|glpat|fw|tgp)[-_](?=[\w.-]*\d)[\w.-]{16,}"
    r"|\bAIza[\w-]{20,}|\bAQ\.[\w-]{20,}|\bya29\.[\w.-]{20,}|\bAKIA[A-Z0-9]{16}\b"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}|(?<=\bBearer )[\w.~+/=-]{12,}",
)
_KEY_NAMES = re.compile(
    r"(api[-_]?key|authorization|password|passwd|secret|credential|(access|auth)[-_]?token)s?$", re.I
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def redact_values(value: object) -> object:
    """Replace everything that looks like a secret key, or stands under a name such as `api_key`, in a JSON value.

    Suites name environment variables, never keys; this is for keys that were written into a parameter, a header or a
    prompt by mistake.
    """
    if isinstance(value, str):
        return _USERINFO.sub(REDACTED, _KEY_SHAPES.sub(REDACTED, value))
    if isinstance(value, Mapping):
        return {
            str(name): REDACTED
            if isinstance(inner, str) and inner and _KEY_NAMES.search(str(name))
            else redact_values(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_values(inner) for inner in value]
    return value
