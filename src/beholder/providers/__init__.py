"""Providers of models: how each one is asked over HTTP, how its replies are read, and what its calls cost.

- `base`: what a provider is: a brief becomes one HTTP request, and the reply an answer
- `anthropic`, `google`, `openai`: one provider (or API form) each, live and by batch
- `pydantic_ai`: all other providers, through pydantic-ai
- `batch`: what batch APIs have in common
- `http`: the client that sends requests; `retry`: when and how long to wait before the next try
- `load_balancer`: one judge at several base URLs
- `payload`: bodies of requests and replies; `prices`: what an answer costs
"""

import logging

# A library is silent until the program configures logging. Here and not in `beholder`, whose import is to stay light:
# everything that logs imports this package or `beholder.runs`.
logging.getLogger("beholder").addHandler(logging.NullHandler())
