"""Judges: whoever answers a brief, a model or the offline instruments, behind one protocol.

- `base`: the protocol of judges, and what a judge can do
- `model`: a vision-language model as judge, live or by batch; `factory`: judges made from their names
- `conversation`: asks one judge about one brief until there is a verdict, with a remedy for each kind of bad answer
- `audit`: compares what a model said about two images with what can be measured of them
- `recorded`: recorded answers, scored again; a judge with scripted answers, for tests
- `offline/`: the judge `instruments`, which measures instead of asking a model
"""
