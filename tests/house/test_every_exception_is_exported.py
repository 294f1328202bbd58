"""Every exception that can reach a user is exported from `beholder` and drawn in the tree of errors.py."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import beholder
from beholder import errors

SOURCE = Path(beholder.__file__).parent
# Exceptions that never leave Beholder: they are caught where calls are retried, batches collected and requests served.
INTERNAL = {
    *("BatchNotFoundError", "FilteredRequestError", "IncompleteResultsError", "MalformedReplyError"),
    *("NoStructuredOutputError", "NotFound", "PermanentError", "Rejection", "RetryableError"),
    "TemplateFailure",
}
# Found without a look at the source: every process of tests makes this list, whichever tests it runs.
OF_ERRORS = [
    name for name, kind in sorted(vars(errors).items()) if isinstance(kind, type) and issubclass(kind, Exception)
]


@cache
def exception_classes() -> dict[str, set[str]]:
    """The classes of the package that derive from an exception, by name, with the names of all their bases."""
    bases: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}

    def all_bases(name: str) -> set[str]:
        direct = bases.get(name, set())
        return direct.union(*(all_bases(base) for base in direct))

    found = {name: all_bases(name) for name in bases}
    return {name: above for name, above in found.items() if above & {"Exception", "BaseException"}}


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
@pytest.mark.parametrize("name", OF_ERRORS)
def test_an_exception_comes_out_of_another_process_as_it_was(name: str, again: Callable[[Any], Any]) -> None:
    kind = getattr(errors, name)
    given: dict[str, tuple[object, ...]] = {
        "AnswerError": (["no score", "no words"],),
        "RubricError": ("a.yaml", [errors.Problem("is wrong", "criteria[0]", 3), errors.Problem("is missing")]),
        "Unreachable": ("no answer", 3),
        "UntrustedSuite": ("suite.yaml", ["the key OPENAI_API_KEY would go to example.com"]),
    }
    error = kind(*given.get(name, ("a sentence",)))
    error.add_note("seen in a test")
    other = again(error)
    assert (type(other), str(other), vars(other)) == (kind, str(error), vars(error))


def test_all_subclasses_of_beholder_error_are_exported() -> None:
    ours = {name for name, above in exception_classes().items() if "BeholderError" in above} | {"BeholderError"}
    assert len(ours) > 10
    assert sorted(ours - set(beholder.__all__)) == []


def test_all_of_them_are_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    exceptions = [name for name in beholder.__all__ if name in vars(errors) and name != "Problem"]  # a part of one
    assert [name for name in exceptions if name not in tree] == []


def test_any_other_exception_is_known_to_be_internal() -> None:
    others = {name for name, above in exception_classes().items() if "BeholderError" not in above and name[0] != "_"}
    assert sorted(others - {"BeholderError"}) == sorted(INTERNAL)
