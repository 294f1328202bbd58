"""The variables of the environment that the judges of a suite read."""

from __future__ import annotations

import os

from beholder.judges.model import plugin, split_spec
from beholder.judges.wires import Wire
from beholder.runs.ray.parcels import Variables
from beholder.runs.suite import Suite

_PREFIXES = {"bedrock": "AWS", "google-vertex": "GOOGLE", "azure": "AZURE"}


def judge_variables(suite: Suite) -> Variables:
    """Those that are set here, with their values: keys, and addresses of servers. Of a provider that pydantic-ai speaks
    to they are the ones that begin with its name."""
    names: set[str] = set()
    for entry in suite.judges:
        provider, _ = split_spec(entry.judge)
        made = plugin(provider)
        if isinstance(made, Wire):
            names |= {*made.key_variables, made.base_url_variable}
        else:
            start = _PREFIXES.get(provider, provider.split("-")[0].upper()) + "_"
            names |= {name for name in os.environ if name.startswith(start)}
        if entry.key_variable:
            names.add(entry.key_variable)
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}
