"""Three checklists, one per seed. A rule is in what the judge reads, in the form of its answer, or in code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from beholder.rubrics.brief import Brief

# rule of the seed, in our words -> what must stand in the system text
RESTYLE = {
    "the judge is an expert in style transfer": r"judge of AI style transfer",
    "two images, the photo and the output": r"two images.*\*\*Original Image\*\*.*\*\*Restyled Image\*\*",
    "it is style transfer, not editing of content": r"changes the look and keeps the content",
    "stays: identity of the subject": r"who or what the subject is, recognisably \|",
    "stays: composition and layout": r"\| composition and layout \|",
    "stays: pose and position": r"\| pose and position \|",
    "stays: content of the scene": r"\| what is in the scene \|",
    "stays: relations of objects": r"\| how the objects relate to each other \|",
    "changes: art style": r"\| the visual art style \|",
    "changes: palette and light": r"\| palette and lighting \|",
    "changes: texture and brushwork": r"\| texture and brushwork \|",
    "changes: mood": r"\| mood and atmosphere \|",
    "changes: medium": r"\| the medium \(",
    "no penalty: looks different": r"Never mark an output down because.*looks different from the photograph.*Do mark",
    "no penalty: additions of the style": r"Never mark.*additions that belong to the style.*title.*sparkles.*Do mark",
    "no penalty: new colours, textures, medium": r"Never mark.*colours, textures or the medium are new.*Do mark",
    "no penalty: artistic reinterpretation": r"Never mark.*features were freely interpreted.*Do mark",
    "penalty: subject lost": r"Do mark an output down because.*subject can no longer be recognised",
    "penalty: structural errors": r"Do mark.*structure is broken: limbs.*faces.*warped",
    "penalty: patchy style": r"Do mark.*patchy or stops half-way",
    "penalty: another style": r"Do mark.*not the one that was asked for",
    "the style by name": r"## The style: Anime",
    "the style's description": r"hand-drawn Japanese animation",
    "assertions before the score": r"Answer the assertions first; score afterwards",
    "step 1, Yes or No": r"1\. answer every assertion Yes or No",
    "step 2, evidence": r"2\. give brief evidence for each answer",
    "step 3, pass rate": r"3\. count how many passed",
    "step 4, score 1 to 5 by the pass rate": r"4\. give a score from 1 to 5.*that the passes allow",
    "step 5, reason": r"5\. give the reason",
    "ceiling: all pass": r"\| none \| 4 or 5 \|",
    "ceiling: 1 failure": r"\| one \| 3 or 4 \|",
    "ceiling: 2 failures": r"\| two \| 2 or 3 \|",
    "ceiling: 3 and more": r"\| three or more \| 1 or 2 \|",
    "A, weight and question": r"A: Accuracy \(weight 1\.0\).*content of the photograph kept while the new look",
    "C, weight and question": r"C: Completeness \(weight 1\.0\).*thoroughly and evenly",
    "R, weight and question": r"R: Relevance \(weight 0\.5\).*person who asked for the style wanted",
    "U, weight and question": r"U: Usefulness \(weight 0\.5\).*practical use",
    "E, weight and question": r"E: Exceptional value \(weight 2\.0\).*delight and go beyond",
    "numbered assertions of each dimension": r"A1\. .*A5\. .*C5\. .*R4\. .*U4\. .*E5\. ",
    "1 is poor": r"1, poor: .*basic expectations; most assertions fail",
    "2 is below average": r"2, below average: .*deficiencies; several assertions fail",
    "3 is average": r"3, average: basic expectations are met; some assertions pass",
    "4 is good": r"4, good: better than expected; most assertions pass",
    "5 is excellent": r"5, excellent: outstanding; every assertion passes",
    "weighted total": r"A × 1\.0 \+ C × 1\.0 \+ R × 0\.5 \+ U × 0\.5 \+ E × 2\.0, at most 25",
    "percentage and grades": r"percentage and the grade \(A\+ from 90 %, A from 80, B from 70, C from 60, F below\)",
    "valid JSON and nothing else": r"One JSON object and nothing before or after it",
    "closing assessment of 2 or 3 sentences": r"`assessment`: two or three sentences on the quality of the style",
}

DESCRIPTION = {
    "a description is judged against the image and what was expected": r"(?s)image.*response.*known to be right",
    "visual accuracy 40": r"`visual_accuracy`, 40 %",
    "accuracy: fits the image": r"fit what the image really shows",
    "accuracy: objects": r"objects named correctly",
    "accuracy: colours, shapes, spatial relations": r"colours, shapes and spatial relations right",
    "accuracy: hallucinations": r"anything that is not there \(a hallucination\)",
    "completeness 30": r"`completeness`, 30 %",
    "completeness: significant elements": r"every significant visual element mentioned",
    "completeness: context": r"context that matters captured",
    "completeness: details": r"key details given, beyond a broad outline",
    "clarity 20": r"`clarity`, 20 %",
    "clarity: clear and specific": r"clear and specific",
    "clarity: spatial relations": r"where things are in relation to each other",
    "clarity: precise": r"precise and free of ambiguity",
    "relevance 10": r"`relevance`, 10 %",
    "relevance: what the task needs": r"what matters for the task",
    "relevance: nothing superfluous": r"superfluous information kept to a minimum",
    "relevance: the question": r"answer the question that was asked",
    "inputs: question, response, expectation": r"`input`.*`output`.*`expected_output`",
    "task 1, compare": r"1\. Compare the response with the image itself and with the expected description",
    "task 2, inaccurate, hallucinated, missing": r"2\. List what is inaccurate, hallucinated or missing",
    "task 3, clarity and relevance": r"3\. Assess clarity and relevance",
    "task 4, scores from 0 to 1": r"4\. Give each dimension a score from 0\.0 to 1\.0",
    "the overall score is by the percentages": r"overall score \(the mean of the four by their percentages\)",
    "Excellent": r"from 0\.9, Excellent: accurate, complete and clear",
    "Good": r"from 0\.7, Good: mostly accurate; small gaps or imprecise",
    "Acceptable": r"from 0\.5, Acceptable: some things are wrong or missing",
    "Poor": r"from 0\.3, Poor: serious problems or hallucinations",
    "Failed": r"from 0\.0, Failed: mostly wrong or badly incomplete",
    "list: hallucinations": r"`hallucinations`: a list",
    "list: missing elements": r"`missing_elements`: a list",
    "list: strengths": r"`strengths`: a list",
    "list: improvements": r"`improvements`: a list",
    "reasoning": r"`assessment`: the reasoning",
    "whether it passes is decided": r"whether the response passes",
}

PRESERVATION = {
    "expert evaluator of preservation": r"expert at evaluating edited images.*keep what the instruction did not ask",
    "objective, consistent, grounded in comparison": r"objective and consistent.*what a comparison of the images shows",
    "input 1": r"1\. \*\*Input Image\*\*: the original before any editing",
    "input 2": r"2\. \*\*Edited Image\*\*: what was produced by applying the instruction",
    "input 3": r"3\. \*\*Edit Instruction\*\*",
    "unchanged regions: definition": r"every part .* that the instruction did not target is visually the same",
    "unchanged regions: find the target": r"Settle which region, object or element the instruction targets",
    "unchanged regions: compare the others": r"Compare all the other regions systematically",
    "unchanged regions: kinds of change": r"colours, new artefacts, lost detail, degraded texture or altered structure",
    "unchanged regions: surroundings": r"background, objects at the periphery and the surroundings",
    "unchanged regions: extent": r"extent of the change.*strictly within the target",
    "unchanged regions: high": r"Score high \(6–7\).*look identical to the first image.*no colour shift, loss of"
    r" detail or artefact.*confined precisely",
    "unchanged regions: low": r"Score low \(1–3\).*substantial changes nobody asked for.*background or the periphery is"
    r" degraded.*well beyond what the instruction says",
    "global consistency: definition": r"artistic style, the layout of its composition, its colour palette",
    "global consistency: style": r"Artistic style\. .*\(photographic, drawn, painted\)",
    "global consistency: layout": r"Layout\. Are framing, spatial arrangement and the structure",
    "global consistency: palette": r"Palette\. .*harmony",
    "global consistency: unity": r"Unity\. .*coherent picture",
    "global consistency: not light or realism": r"Do not evaluate here: - lighting and shadows - whether the edit looks"
    r" realistic - anything besides style, layout and palette",
    "global consistency: high": r"has the artistic style of the original.*layout are intact.*palette is harmonious"
    r".*coherent as a whole",
    "global consistency: low": r"plainly in another style.*layout is disrupted.*palette is fragmented.*no visual unity",
    "identity: definition": r"people, animals and objects keep the features by which they are recognised",
    "identity: people": r"People\. .*face.*eyes, nose, mouth.*moles and freckles.*hair.*body, posture",
    "identity: animals": r"Animals\. .*species.*face.*build.*markings and patterns.*fur or feathers",
    "identity: objects": r"Objects\. Recognisable shape, structural design, distinctive look, apparent material",
    "identity: all entities": r"all entities in the image, not only the target",
    "identity: an asked-for change is expected": r"asks for a feature to change, that change is expected.*other"
    r" identifying features are intact",
    "identity: not realism": r"Do not evaluate here: - whether features look realistic or well blended",
    "identity: high": r"keeps its core distinguishing features.*clearly the same individuals.*only the features that"
    r" the instruction names.*distinctive marks are still there",
    "identity: low": r"lost what made them recognisable.*changed without being asked.*look like other individuals.*core"
    r" marks of identity are badly degraded",
    "step 1": r"1\. Read the Edit Instruction closely and settle what exactly should change",
    "step 2": r"2\. For each factor, compare the Input Image with the Edited Image",
    "step 3": r"3\. Look for visible evidence",
    "step of the score": r"a whole number from 1 to 7",
    "step of the justification": r"justification of 15 to 30 words that cites what you observed",
    "scale 1": r"1, strongly disagree: completely violated",
    "scale 2": r"2, disagree: major issues",
    "scale 3": r"3, somewhat disagree: noticeable problems",
    "scale 4": r"4, neither: mixed or ambiguous",
    "scale 5": r"5, somewhat agree: only minor issues",
    "scale 6": r"6, agree: negligible issues",
    "scale 7": r"7, strongly agree: perfect",
    "the label is repeated": r"`image_id`: the label of the case",
    "constraint 1, one JSON block": r"1\. Answer with a single JSON block that contains every factor",
    "constraint 2, integers": r"2\. Every score is an integer between 1 and 7",
    "constraint 3, specific evidence": r'3\. Every justification refers to specific, observable evidence: ".*", not "',
    "constraint 4, no definitions or chains": r"4\. .*neither repeats a definition nor spells out a chain of reasoning",
    "constraint 5, where": r"5\. Say precisely where in the image",
    "constraint 6, only what is visible": r"6\. Judge only what is visible, not the technique or the intention",
    "constraint 7, tone": r"7\. Keep the tone factual, concise and visual",
    "constraint 8, independence": r"8\. Judge each factor independently",
}

CHECKLIST = [
    pytest.param(rubric, pattern, id=f"{rubric}: {rule}")
    for rubric, rules in (("restyle", RESTYLE), ("description", DESCRIPTION), ("edit-preservation", PRESERVATION))
    for rule, pattern in rules.items()
]


@pytest.mark.parametrize(("rubric", "pattern"), CHECKLIST)
def test_the_judge_is_told_every_rule(rubric: str, pattern: str, compose: Callable[..., Brief]) -> None:
    told = " ".join(compose(rubric).system.split())
    assert re.search(pattern, told, re.DOTALL)


@pytest.mark.parametrize("rubric", ["restyle", "restyle-confidence"])
def test_both_restyle_rubrics_say_what_stays_and_what_is_penalised(rubric: str, compose: Callable[..., Brief]) -> None:
    told = " ".join(compose(rubric).system.split())
    kept = [rule for rule in RESTYLE if rule.startswith(("stays", "changes", "penalty", "no penalty"))]
    assert len(kept) == 18
    assert not [rule for rule in kept if not re.search(RESTYLE[rule], told, re.DOTALL)]


@pytest.mark.parametrize("rubric", ["edit-preservation", "edit-quality", "edit-fidelity"])
@pytest.mark.parametrize("setting", ["online", "offline"])
def test_the_sisters_have_the_same_form(rubric: str, setting: str, compose: Callable[..., Brief]) -> None:
    told = " ".join(compose(rubric, setting=setting).system.split())
    first = "Input" if setting == "online" else "Target"
    assert f"1. **{first} Image**" in told
    assert f"compare the {first} Image with the Edited Image" in told
    form = [rule for rule in PRESERVATION if rule.startswith(("scale", "constraint", "step 1", "step of"))]
    assert not [rule for rule in form if not re.search(PRESERVATION[rule], told, re.DOTALL)]


# Factor -> what ../shared/edit-factors.md says it looks at, and what it leaves to others.
SISTERS = {
    "scale_realism": ("reference objects", "real-world", "perspective", "distance"),
    "spatial_relationship": (
        "positions",
        "orientation",
        "support",
        "depth order",
        "surfaces",
        "hides",
        "removal",
        "size,",
    ),
    "texture_and_detail": ("sharpness of its surroundings", "material", "grain", "noise", "too smooth", "too crisp"),
    "image_quality": ("noise", "blur", "over-sharpening", "blocking", "banding", "warping", "ghosting", "first image"),
    "color_and_lighting": ("temperature", "direction", "softness", "reflections", "cast", "highlights"),
    "seamlessness": ("halos", "fringes", "hard cuts", "pasted", "overlaps"),
    "alignment": ("right target", "colour, kind", "intention", "whether all of it was done", "realistic"),
    "completeness": ("compound", "plural", "omissions", "how accurately", "realistic"),
    "plausibility": ("physics", "anatomy", "logic", "context", "instruction itself", "stylistic choice"),
}


@pytest.mark.parametrize("factor", SISTERS)
def test_a_sister_factor_asks_what_it_should(factor: str, compose: Callable[..., Brief]) -> None:
    told = "".join(compose(rubric).system for rubric in ("edit-quality", "edit-fidelity"))
    section = re.search(rf"\(`{factor}`\)(.*?)(?=\n###? )", told, re.DOTALL)
    assert section
    assert not [word for word in SISTERS[factor] if word not in " ".join(section.group(1).lower().split())]


# Short phrases of the trade, and numbers, are nobody's sentence; eight words in a row are.
WORDS_IN_A_ROW = 8


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z]{2,}", text.lower())
    return {tuple(words[start : start + WORDS_IN_A_ROW]) for start in range(len(words) - WORDS_IN_A_ROW + 1)}


def test_no_sentence_of_a_seed_is_copied(seeds: dict[str, str], compose: Callable[..., Brief]) -> None:
    folder = Path(str(files("beholder.rubrics")))
    ours = {str(path): path.read_text("utf-8") for end in ("yaml", "j2") for path in folder.rglob(f"*.{end}")}
    for name in ("restyle", "restyle-confidence", "description", "edit-preservation", "edit-quality", "edit-fidelity"):
        brief = compose(name)
        ours[f"{name}, as told"] = brief.system + json.dumps(brief.schema)
    assert len(ours) > 30
    copied = {
        (where, " ".join(run))
        for where, text in ours.items()
        for seed in seeds.values()
        for run in _runs(text) & _runs(seed)
    }
    assert not copied
