"""How values lie in the file: JSON, compressed with zlib and its preset dictionary (`words`); digests as bytes; texts
that every database takes."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal

import msgspec

from beholder.errors import LedgerError
from beholder.ledger.model import AnswerKey
from beholder.ledger.words import WORDS
from beholder.verdicts.model import Flag, Verdict

_LEVEL = 6  # level 1 saves 4 to 10 µs a verdict and costs 7 to 13 % of the space; 9 makes nothing smaller
# Younger than the dictionary, which does not shorten them: left out where they say nothing, which is 40 bytes a verdict
# and makes room for a fifth verdict in a page of SQLite.
_LATER = ("coverage", "total_range", "calibrated")
_LATER_OF_CRITERIA = ("abstained", "score_range")
_VERDICT = msgspec.json.Decoder(Verdict)
DAMAGED = "The ledger is damaged: {} cannot be read; `beholder doctor` says how much of it is sound."


def pack(value: object) -> bytes:
    """JSON values, small."""
    return _small(_json(value))


def unpack(data: bytes, what: str) -> object:
    """The inverse of `pack`; `what` is for the sentence when the bytes are damaged."""
    try:
        return json.loads(_large(data))
    except (zlib.error, ValueError):
        raise LedgerError(DAMAGED.format(what)) from None


def pack_text(text: str) -> bytes:
    return _small(text.encode("utf-8", "surrogatepass"))


def unpack_text(data: bytes, what: str) -> str:
    try:
        return _large(data).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        raise LedgerError(DAMAGED.format(what)) from None


def pack_verdict(verdict: Verdict, *, answer: bool) -> bytes:
    """A verdict with its exact cost, and with its raw answer when asked."""
    values = verdict.to_dict()
    for name in _LATER:
        if not values[name]:
            del values[name]
    criteria = values["criteria"]
    assert isinstance(criteria, dict)
    for result in criteria.values():
        for name in _LATER_OF_CRITERIA:
            if not result[name]:
                del result[name]
    if verdict.cost_usd is not None:
        values["cost_usd"] = str(verdict.cost_usd)
    if answer and verdict.answer:
        values["answer"] = verdict.answer
    return pack(values)


def unpack_verdict(data: bytes, what: str) -> Verdict:
    try:
        plain = _large(data)
    except zlib.error:
        raise LedgerError(DAMAGED.format(what)) from None
    try:
        return _VERDICT.decode(plain)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    # Half a surrogate pair, or a number past all bounds: rare, and only the slow readers take them.
    try:
        return Verdict.from_dict(json.loads(plain))
    except ValueError:
        raise LedgerError(DAMAGED.format(what)) from None


class _Score(msgspec.Struct, frozen=True, gc=False):
    score: float | None = None


class _Value(msgspec.Struct, frozen=True, gc=False):
    value: float | None = None


class _Flag(msgspec.Struct, frozen=True, gc=False):
    flag: str


class _Juror(msgspec.Struct, frozen=True, gc=False):
    model: str | None = None


class _Jury(msgspec.Struct, frozen=True, gc=False):
    jurors: tuple[_Juror, ...] = ()


class Gist(msgspec.Struct, frozen=True, gc=False):
    """What of a verdict is counted. To read only this takes half the time."""

    rubric: str
    judge: str
    outcome: str
    model: str | None = None
    criteria: dict[str, _Score] = {}
    calibrated: dict[str, _Value] = {}
    grade: str | None = None
    score: float | None = None
    passed: bool | None = None
    flags: tuple[_Flag, ...] = ()
    jury: _Jury | None = None
    usage: dict[str, int | None] = {}
    cost_usd: Decimal | None = None
    attempts: int = 0


_GIST = msgspec.json.Decoder(Gist)


def unpack_gist(data: bytes, what: str) -> Gist | Verdict:
    """What of a verdict is counted; the whole verdict where it is one for the slow readers."""
    try:
        return _GIST.decode(_large(data))
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError):
        return unpack_verdict(data, what)


def pack_flags(flags: Sequence[Flag]) -> bytes | None:
    return pack([asdict(flag) for flag in flags]) if flags else None


def unpack_flags(data: bytes | None, what: str) -> tuple[Flag, ...]:
    try:
        return msgspec.convert(unpack(data, what), tuple[Flag, ...]) if data else ()
    except msgspec.ValidationError:
        raise LedgerError(DAMAGED.format(what)) from None


def dump(value: object) -> str:
    """JSON values as a text column."""
    return _json(value).decode("utf-8")


def plain_text(text: str) -> str:
    """The text as every database takes it: half a surrogate pair, which UTF-8 cannot hold, and NUL, which PostgreSQL
    cannot, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def plain_json(text: str) -> str:
    """A JSON text whose texts are plain: PostgreSQL reads no other, and SQLite would not find them again."""
    if "\\u" not in text:
        return text
    return dump(_plain(json.loads(text)))


def digest_bytes(digest: str) -> bytes:
    """A SHA-256 in hex as its 32 bytes; any other text as it is."""
    if len(digest) == 64:
        try:
            return bytes.fromhex(digest)
        except ValueError:
            pass
    return digest.encode("utf-8", "surrogatepass")


def key_id(key: AnswerKey) -> bytes:
    """16 bytes that stand for a key."""
    return _short(key.brief_digest, key.judge, str(key.sample))


def answer_id(brief_digest: str, text: str) -> bytes:
    """16 bytes that stand for an answer by its content: a fresh answer to the same brief is another one."""
    return _short(brief_digest, text)


def split_ids(joined: bytes) -> list[bytes]:
    return [joined[at : at + 16] for at in range(0, len(joined), 16)]


def _short(*parts: str) -> bytes:
    encoded: Sequence[bytes] = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in encoded)).digest()[:16]


def _small(data: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zdict=WORDS)
    return packer.compress(data) + packer.flush()


def _large(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(zdict=WORDS)
    plain = unpacker.decompress(data)
    if not unpacker.eof or unpacker.unused_data:
        raise zlib.error("cut off")
    return plain


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, OverflowError):  # half a surrogate pair, a mapping of another kind
        return json.dumps(value, default=_as_dict).encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {plain_text(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _as_dict(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
