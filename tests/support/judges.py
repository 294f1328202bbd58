"""Briefs by hand, and judges that never wait."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from beholder.images.image import PreparedImage
from beholder.judges.model import ModelJudge
from beholder.providers.anthropic import PROVIDER as ANTHROPIC_PROVIDER
from beholder.providers.base import JudgeSettings, Provider
from beholder.providers.google import PROVIDER as GOOGLE_PROVIDER
from beholder.providers.openai import PROVIDER as OPENAI_PROVIDER
from beholder.rubrics.brief import Brief, ImageBlock, TextBlock
from beholder.testing.server import JudgeServer

KEY = "sk-proj-Zq7PxT4mW9vRb2NcLk8sYd3H"
WIRES = {"openai": OPENAI_PROVIDER, "anthropic": ANTHROPIC_PROVIDER, "google": GOOGLE_PROVIDER}
MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}
PROTOCOLS = tuple(WIRES)

# Every byte value occurs, so that nothing between us and the server can have treated them as text.
EVERY_BYTE = bytes(range(256)) * 3
JPEG = b"\xff\xd8\xff\xe0" + EVERY_BYTE
PNG = b"\x89PNG\r\n\x1a\n" + EVERY_BYTE
WEBP = b"RIFF\x00\x00\x00\x00WEBP" + EVERY_BYTE


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# Evidence before score, and names whose alphabetical order is the wrong one.
SCHEMA = _strict(
    {
        "zeal": _strict(
            {
                "assertions": _strict({"A1": {"type": "string", "enum": ["Yes", "No"]}}),
                "reason": {"type": "string", "description": "why this score"},
                "a_score": {"type": "integer", "minimum": 1, "maximum": 5},
            }
        ),
        "share": {"type": "number", "minimum": 0, "maximum": 1, "description": "how much of it"},
        "findings": {"type": "array", "items": {"type": "string"}},
        "assessment": {"type": "string"},
    }
)


def picture(role: str, data: bytes, media_type: str = "image/jpeg") -> ImageBlock:
    digest = hashlib.sha256(data).hexdigest()
    image = PreparedImage(data, media_type, 8, 8, digest, digest, 8, 8, media_type.removeprefix("image/"))
    return ImageBlock(role, f"Image `{role}`:", image)


def brief(
    *content: TextBlock | ImageBlock,
    system: str = "You judge pictures — «carefully».",
    schema: dict[str, Any] | None = SCHEMA,
) -> Brief:
    parts = content or (
        picture("original", JPEG),
        picture("restyled", PNG, "image/png"),
        TextBlock("Style: anime. Judge."),
    )
    return Brief("restyle", "2.0", None, system, parts, schema, "0" * 64, "case-7", answer_tokens=2048)


@dataclass
class Waits:
    """In place of sleeping: what would have been slept."""

    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def base_url(server: JudgeServer, protocol: str) -> str:
    return {"openai": server.openai_url, "anthropic": server.anthropic_url, "google": server.google_url}[protocol]


def judge(
    server: JudgeServer,
    protocol: str = "openai",
    *,
    model: str | None = None,
    key: str | None = KEY,
    waits: Waits | None = None,
    random: float = 0.5,
    wire: Provider | None = None,
    **given: object,
) -> ModelJudge:
    settings = JudgeSettings(
        base_url=base_url(server, protocol),
        sleep=(waits or Waits()).sleep,
        random=lambda: random,
        **given,  # type: ignore[arg-type]
    )
    return ModelJudge(wire or WIRES[protocol], model or MODELS[protocol], settings, key=key)
