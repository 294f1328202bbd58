"""Makes the ledger with half-finished runs that `test_resume.py` resumes; run once, on commit 4a0e41e:

    PYTHONPATH=src:tests python tests/golden/make_ledger.py

It must not be made anew by a later commit: that an older commit made it is what the test is about.

The cases carry their images as `data:` URIs, since a run knows an image file by its absolute path and its time of
change; one run has files nonetheless, and is resumed by name.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from support.golden import (
    EDITED,
    FILES,
    PHOTO,
    PLACES,
    TARGET,
    Course,
    Fault,
    Json,
    answer_to,
    beholder,
    brief,
    data_uri,
    wiretap,
)

FOLDER = FILES / "ledger"
BATCH = PLACES["openai"]

SUITES: dict[str, dict[str, object]] = {
    "live": {"rubric": "edit-preservation", "cases": "cases.jsonl"},
    "jury": {"rubric": "edit", "cases": "cases.jsonl", "limit": 2, "samples": 2},
    "files": {"rubric": "edit-preservation", "cases": "files.jsonl"},
    "batch": {"rubric": "edit-preservation", "cases": "cases.jsonl", "only": "c[1-4]"},
}


def write_suites() -> None:
    """Suites and case files beside the ledger."""
    images = {"input": data_uri(PHOTO), "edited": data_uri(EDITED)}
    target = {"target": data_uri(TARGET), "edited": data_uri(EDITED)}
    rows = [
        {
            "id": f"c{n}",
            **(target if n == 6 else images),
            "instruction": f"Paint {n} doors — bemale sie.",
            "source": "s",
        }
        for n in range(1, 7)
    ]
    files = [
        {"id": f"f{n}", "input": "photo.png", "edited": "edited.png", "instruction": f"paint {n}"} for n in (1, 2, 3)
    ]
    for name, lines in (("cases", rows), ("files", files)):
        (FOLDER / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines), "utf-8")
    for name, keys in SUITES.items():
        model = {
            "judge": f"openai:gpt-5-mini-{name}",
            "base_url": BATCH,
            "params": {"reasoning_effort": "low", "seed": 3},
        }
        suite: dict[str, object] = {
            **keys,
            "name": f"golden-{name}",
            "judges": [model],
            "concurrency": 1,
            "audit": False,
        }
        suite |= {"ledger": "golden.db", "thumbnails": name in ("live", "files"), "tags": ["golden"]}
        (FOLDER / f"suite-{name}.yaml").write_text(json.dumps(suite, indent=1) + "\n", "utf-8")


def stop_after(answer: Json) -> Any:
    """An answer that is the last one: the run hears Ctrl-C while it waits for it."""

    def said(_: object) -> Json:
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    return said


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_suites()
    os.environ["OPENAI_API_KEY"] = "sk-test-0123456789"
    family = [
        brief(one, PHOTO, EDITED, "--set", "instruction=x")["schema"] for one in ("edit-preservation", "edit-quality")
    ]
    edit = [answer_to(family[0], turn) for turn in range(4)]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for source in (*FOLDER.glob("*.yaml"), *FOLDER.glob("*.jsonl"), Path(PHOTO), Path(EDITED)):
            shutil.copy(source, folder)
        with wiretap() as tap:
            tap.say(edit[0], Fault.refusal("I will not judge doors."), stop_after(edit[1]))
            beholder("run", "suite-live.yaml", "--quiet", code=3)
            tap.say(
                edit[0], edit[1], answer_to(family[1]), stop_after(answer_to(family[1], 2)), answer_to(family[1], 3)
            )
            beholder("run", "suite-jury.yaml", "--quiet", code=3)
            tap.say(stop_after(edit[2]), edit[1])
            beholder("run", "suite-files.yaml", "--quiet", code=3)
            tap.batch_goes(Course(expired=2))
            tap.always(edit[3])
            beholder("run", "suite-batch.yaml", "--batch", "--quiet")
            beholder("collect", "suite-batch.yaml", "--quiet")  # two are answered, two handed in again
            Path("ratings.csv").write_text(
                "case,rater,aspect,score\nc1,anna,unchanged_regions,5\nc3,ben,unchanged_regions,2\n"
            )
            beholder("ratings", "import", "ratings.csv", "--run", "golden-live", "--ledger", "golden.db")
            replies = _of_the_batch(tap.judge.url)
        print(beholder("runs", "--ledger", "golden.db").out)
        (FOLDER / "replies.json").write_text(json.dumps(replies, indent=1) + "\n", "utf-8")
        assert sorted(path.name for path in Path().glob("golden.db*")) == ["golden.db"]
        (FOLDER / "golden.db.gz").write_bytes(gzip.compress(Path("golden.db").read_bytes(), 9, mtime=0))


def _of_the_batch(server: str) -> dict[str, Json]:
    """What the provider says of the batch that is under way, as soon as it has ended."""
    opener = build_opener(ProxyHandler({}))
    replies: dict[str, Json] = {}
    for path in ("batches/batch_openai2", "batches/batch_openai2", "files/output-of-batch_openai2/content"):
        with opener.open(_request(f"{server}/openai/v1/{path}")) as response:
            text = response.read().decode()
        replies[f"GET {BATCH}/{path}"] = text if path.startswith("files") else json.loads(text)
    return {**replies, f"DELETE {BATCH}/files/file-2": {"id": "file-2", "object": "file", "deleted": True}}


def _request(url: str) -> Any:
    from urllib.request import Request

    return Request(url, headers={"Authorization": "Bearer sk-test-0123456789"})


if __name__ == "__main__":
    main()
