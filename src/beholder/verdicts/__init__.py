"""Verdicts: parse a judge's answer, check it, and compute every number of it in code.

- `answer`: an answer as it came back
- `parse`: the JSON object in an answer's text, the values in it, and refusals in plain words
- `observe`: what the judge observed, from any of the forms that answers come in
- `score`: scores computed from the observations
- `jury`: the answers of a jury combined into one verdict
- `verdict`: the verdict itself, its outcomes and flags
- `calibration`, `calibration_maps`: files of maps from a judge's numbers to people's ratings, and the maps
- `seed_format`: `--format seed`, a verdict in the JSON form of its rubric's published prompt
"""
