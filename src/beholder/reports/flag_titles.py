"""What people call a flag. Its key is for programs, and for whoever looks it up; pages show it when asked."""

from __future__ import annotations

import re

TITLES = {
    "abstained": "left open",
    "alpha_over_background": "transparency filled",
    "answer_as_boolean": "true or false for Yes or No",
    "assessment_missing": "no closing text",
    "below_guidance": "score below its guidance",
    "colour_profile_ignored": "colour profile ignored",
    "converted_from_cmyk": "colours converted from CMYK",
    "converted_to_srgb": "colours converted to sRGB",
    "cut_off": "cut off, asked again",
    "empty_answer": "empty answer, asked again",
    "empty_evidence": "no evidence given",
    "empty_reason": "no reason given",
    "finding_missing": "list of findings missing",
    "gate": "failed by a gate",
    "generic_style": "style not known, general questions",
    "jurors_failed": "jurors without a score",
    "label_differs": "case called by another name",
    "measured_not_seen": "measured, not seen",
    "not_applicable": "answered N/A",
    "not_audited": "not checked against the pixels",
    "other_setting": "another setting set aside",
    "partial": "only part of it applied",
    "pixels_disagree": "pixels disagree",
    "prose_around_json": "text around the answer",
    "question_differs": "question put in other words",
    "rating_changed": "rating changed later",
    "reason_length": "reason too short or too long",
    "reduced_to_8_bit": "reduced to 8 bits",
    "repair_asked": "asked to mend its answer",
    "rotated_upright": "image turned upright",
    "score_in_odd_form": "score in an odd form",
    "sister_criteria": "criteria of other rubrics set aside",
    "structured_output_unavailable": "server cannot hold answers to a form",
    "tie": "jurors tied",
}
_FRAME = re.compile(r"first_frame_of_(\w+)")
_QUALITY = re.compile(r"(jpeg|webp)_quality_(\d+)")


def flag_title(key: str) -> str:
    """A few words in small letters; a flag that we do not know by its own."""
    if key in TITLES:
        return TITLES[key]
    if found := _FRAME.fullmatch(key):
        return f"first frame of {found[1].upper()}"
    if found := _QUALITY.fullmatch(key):
        return f"sent as {found[1].upper()} of quality {found[2]}"
    return key.replace("_", " ")
