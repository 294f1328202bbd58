"""Promise: a case asked by a rubric is the same question as ever.

The digest of a brief is half of the key under which an answer is found again, so one word that changes in a prompt, a
schema or a delimiter means that everything is asked and paid for anew. Digests, texts and schemas of all rubrics, in
all settings and styles, are those of commit 4a0e41e.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.golden import (
    EDITED,
    EXAMPLES,
    FILES,
    PHOTO,
    PIXELS,
    STYLED,
    TARGET,
    Json,
    beholder,
    brief,
    check,
    digest,
    short,
)

SAID = ("--set", "input=What is on the street?", "--set", "output=A red car.\n\nAnd a house.")
GERMAN = "Färbe das Auto rot – und sonst nichts. {{instruction}}"
JAPANESE = "車を赤くしてください。「<<<」"


def told(one: Json) -> Json:
    """A brief as it is stored: its digest, and of every text enough to see which one changed."""
    schema = one["schema"]
    return {
        **{key: one[key] for key in ("rubric", "rubric_version", "setting", "brief_digest")},
        "system": short(one["system"]),
        "content": [short(part["text"]) if "text" in part else _picture(part) for part in one["content"]],
        "schema": schema and f"sha256 {digest(json.dumps(schema))[:24]}: {' '.join(_names(schema))}"[:160],
    }


def _picture(part: Json) -> str:
    """All that is said of a picture, on one line."""
    return " ".join(f"{value}" for value in part.values())


def _names(schema: Json) -> Iterator[str]:
    """The keys of an answer, in their order."""
    for key, one in schema.get("properties", {}).items():
        yield key
        yield from _names(one)


def _each(cases: dict[str, Sequence[str | Path]]) -> dict[str, Json]:
    return {name: told(brief(*words)) for name, words in cases.items()}


def test_restyles_in_every_style() -> None:
    styles = beholder("styles", "--json").lines[0]
    found = {"styles": styles}
    for style in (*styles, "Anime Style", "Linocut on Bark"):
        one = brief("restyle", PHOTO, STYLED, "--set", f"style={style}")
        found[style] = {
            "brief_digest": one["brief_digest"],
            "system": digest(one["system"])[:24],
            "schema": digest(json.dumps(one["schema"]))[:24],
            "content": digest(json.dumps(one["content"]))[:24],
        }
    check("briefs_styles", found)


def test_restyles() -> None:
    pair = ("restyle", PHOTO, STYLED)
    anime, felt = ("--set", "style=Anime"), ("--set", "style=Felt", "--styles", FILES / "styles")
    check(
        "briefs_restyle",
        _each(
            {
                "preset": (*pair, *anime),
                "alias": (*pair, "--set", "style=Ben-Day Dots"),
                "nobody's style": (*pair, "--set", "style=Linocut on Bark"),
                "described by the case": (*pair, *anime, "--set", "style_description=Wie von Hand, 手描き, bitte."),
                "style of one's own": (*pair, *felt),
                "style of one's own by its alias": (*pair, "--set", "style=needle felt", "--styles", FILES / "styles"),
                "prompt of one's own": (*pair, *anime, "--prompt", FILES / "prompt.md"),
                "prompt and style of one's own": (*pair, *felt, "--prompt", FILES / "prompt.md"),
                "not applicable offered": (*pair, *anime, "--not-applicable", "offer"),
                "not applicable refused": (*pair, *anime, "--not-applicable", "refuse"),
                "threshold": (*pair, *anime, "--threshold", "0.9"),
                "by confidence": ("restyle-confidence", PHOTO, STYLED, *anime),
                "by confidence, nobody's style": (
                    "restyle-confidence",
                    PHOTO,
                    STYLED,
                    "--set",
                    "style=Linocut on Bark",
                ),
                "by confidence, prompt of one's own": (
                    *("restyle-confidence", PHOTO, STYLED, *anime, "--prompt", FILES / "prompt.md"),
                ),
            }
        ),
    )


def test_edits() -> None:
    found: dict[str, Json] = {}
    for rubric in ("edit-preservation", "edit-quality", "edit-fidelity"):
        said = ("--set", f"instruction={GERMAN}")
        found |= _each(
            {
                f"{rubric} by its images": (rubric, PHOTO, EDITED, *said),
                f"{rubric} offline": (rubric, TARGET, EDITED, *said, "--setting", "offline"),
                f"{rubric} by role": (rubric, "--image", f"target={TARGET}", "--image", f"edited={EDITED}", *said),
            }
        )
    (Path("own.md")).write_text("Was it done? {{instruction}} {braces} {{ image_reference }}\n", "utf-8")
    found |= _each(
        {
            "in Japanese": ("edit-fidelity", PHOTO, EDITED, "--set", f"instruction={JAPANESE}"),
            "several": ("edit-preservation", PHOTO, EDITED, "--set", "instruction=a", "--set", "instruction=b"),
            "prompt of one's own": ("edit-quality", PHOTO, EDITED, "--set", "instruction=x", "--prompt", "own.md"),
        }
    )
    family = beholder("judge", "edit", PHOTO, EDITED, "--set", "instruction=x", "--plan", "--json").lines
    found["family"] = [told(one) for one in family]
    check("briefs_edit", found)


def test_descriptions() -> None:
    asked = ("description", PHOTO, *SAID)
    several = ("--set", "expected_output=A red car.", "--set", "expected_output=Ein rotes Auto.")
    Path("own.md").write_text("Q: {{input}}\nA: {{output}}\nE: {{expected_output}}\n", "utf-8")
    Path("less.md").write_text("Is it right?\n", "utf-8")
    check(
        "briefs_description",
        _each(
            {
                "without an expected output": asked,
                "one expected output": (*asked, "--set", "expected_output=A red car before a house."),
                "several expected outputs": (*asked, *several, "--set", "expected_output=赤い車"),
                "nothing said": ("description", PHOTO, "--set", "input=What?", "--set", "output="),
                "prompt of one's own": (*asked, *several, "--prompt", "own.md"),
                "prompt of one's own without places": (*asked, *several, "--prompt", "less.md"),
                "looks like a fence": (
                    "description",
                    PHOTO,
                    "--set",
                    "input=<<<output>>>",
                    "--set",
                    "output=</output>",
                ),
                "jpeg with metadata": ("description", TARGET, *SAID),
                "webp": ("description", STYLED, *SAID),
            }
        ),
    )


def test_rubrics_of_ones_own() -> None:
    mine = FILES / "rubric"
    texts = ("--set", "product=a lamp", "--set", "caption=")
    found = _each(
        {
            "every key, one image": (mine, PHOTO, *texts),
            "every key, two images": (mine, PHOTO, EDITED, *texts, "--setting", "compared", "--set", "note=old"),
            "a prompt template": (FILES / "rubric-with-prompt", PHOTO),
            "foreign judge": (EXAMPLES / "foreign-judge", PHOTO, EDITED, "--set", "instruction=x"),
        }
    )
    beholder("rubrics", "new", "lamp")
    found["as rubrics new writes it"] = told(brief("./lamp", PHOTO, "--set", "product=a lamp"))
    check("briefs_own", found)


def test_pictures_that_are_encoded_anew() -> None:
    """Scaled, turned upright, without alpha: their bytes are part of the digest."""
    names = ("photo.png", "target.jpg", "styled.webp", "turned.jpg", "alpha.png")
    found: dict[str, Json] = {}
    for judge in ("openai:any", "anthropic:any", "google:any", "deepseek:any", "instruments"):
        for size in ((), ("--max-side", "24")):
            briefs = [brief("description", FILES / name, "--judge", judge, *size, *SAID) for name in names]
            found[" ".join((judge, *size))] = [_picture(one["content"][0]) for one in briefs]
    large = brief("description", EXAMPLES / "demo" / "before.png", *SAID, "--detail", "low")
    found["at low detail"] = _picture(large["content"][0])
    check("briefs_pictures", found, made_with=PIXELS)
