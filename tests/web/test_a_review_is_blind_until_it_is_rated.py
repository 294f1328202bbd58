"""Whoever has yet to rate reads neither verdict nor model nor case; once rated, judge and person stand side by side."""

from __future__ import annotations

import io
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from PIL import Image
from support.ledger import run_record
from support.reviews import EDIT, RUN, SECRETS, answers, edits, families, restyles, styled
from support.web import Started

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.reviews.review import find_or_start_review, list_reviews
from beholder.reviews.sheet import record_rating
from beholder.rubrics.load import load_rubric

NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("judged") / "ledger.db"
    edits(path).close()
    return path


@pytest.fixture
def place(judged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(judged, tmp_path / "ledger.db"))


@pytest.fixture
def site(place: Path, started: Started) -> str:
    return started(place)


@pytest.fixture
def client(site: str) -> Iterator[httpx.Client]:
    """Whoever fills in the forms of the app: redirects are followed, and its own origin is shown."""
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as found:
        yield found


def begin(client: httpx.Client, rater: str = "Ana", **how: str) -> str:
    """The path of the first case to rate."""
    page = client.post(f"/review/run/{RUN}", data={"rater": rater, **how})
    assert page.status_code == 200, page.text
    return _path(page)


def _path(page: httpx.Response) -> str:
    parts = urlsplit(str(page.url))
    return parts.path + (f"?{parts.query}" if parts.query else "")


@pytest.mark.parametrize("order", ["random", "uncertain", "audit", "quota"])
def test_nothing_in_the_page_tells_what_must_not_be_known(client: httpx.Client, order: str) -> None:
    path = begin(client, order=order, group="source")
    seen = 0
    while "/case/" in path and seen < 12:
        page = client.get(path)
        for secret in (*SECRETS, "refused", "would not look", "pixels_disagree", "much was changed", "0.5"):
            assert secret not in page.text, secret
        assert page.text.index("make the car red") < page.text.index("<img")  # what was asked for is above the images
        # Not even a header tells it, nor the picture's address.
        assert not any(secret in f"{name}: {value}" for name, value in page.headers.items() for secret in SECRETS)
        for address in re.findall(r'<img src="([^"]+)"', page.text):
            picture = client.get(address)
            assert (picture.status_code, picture.headers["content-type"]) == (200, "image/webp")
            assert not any(secret in str(picture.headers) for secret in SECRETS)
        label = path.split("/case/")[1].split("?")[0]
        path = _path(client.get(path.split("/case/")[0] + "/next", params={"after": label}))
        seen += 1
    assert seen == 12


def test_after_the_rating_the_judge_is_shown(client: httpx.Client) -> None:
    path = begin(client, order="audit")
    page = client.post(path, data=answers(2) | {"comment": NASTY})
    assert _path(page) == path
    for part in ("photo-00007/model-a", "openai:gpt-5-mini", "judge higher by", "So far", "differ most", "model-b"):
        assert part in page.text, part
    assert NASTY not in page.text
    assert NASTY in unescape(page.text)


def test_the_judge_can_stay_hidden_until_the_end(client: httpx.Client) -> None:
    path = begin(client, hide="1")
    for left in range(11, -1, -1):
        page = client.post(path, data=answers(4))
        path = _path(page)
        if left:
            assert "/case/" in path
            assert not any(secret in page.text for secret in SECRETS)
            middle = client.get(path.split("/case/")[0])
            assert "stay hidden" in middle.text
            assert not any(secret in middle.text for secret in SECRETS if secret != "nightly")
    assert "/case/" not in path
    assert "Agreement with the judge so far" in page.text


@pytest.mark.parametrize("how", ["by the link", "by name"])
def test_whoever_comes_back_goes_on_as_they_began(client: httpx.Client, how: str) -> None:
    path = begin(client, hide="1", order="quota", group="model", each="1")
    client.post(path, data=answers(4))
    assert "1 case rated, of 1 of each model" in " ".join(client.get(f"/review/run/{RUN}").text.split())
    if how == "by name":  # with the form as it comes
        page = client.post(f"/review/run/{RUN}", data={"rater": "ana", "order": ""})
    else:
        found = re.search(r'class="review-run" href="([^"]+)"', client.get(f"/review/run/{RUN}").text)
        assert found is not None
        page = client.get(found[1])
    assert "Case <span" in page.text
    assert 'of <span class="number">2</span>' in page.text
    seen = client.get(path)
    assert "stays hidden" in seen.text
    assert not any(secret in seen.text for secret in SECRETS)
    client.post(f"/review/run/{RUN}", data={"rater": "Ana", "order": "random"})
    assert "photo-000" in client.get(path).text  # said otherwise, it is otherwise


def test_a_rating_is_a_case_however_many_rubrics_it_has(tmp_path: Path, started: Started) -> None:
    families(tmp_path / "family.db").close()
    site = started(tmp_path / "family.db")
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as client:
        path = begin(client)

        def rated() -> list[str]:
            return re.findall(r'<bdi>Ana</bdi> <span class="number">(\d+)</span>', client.get("/review").text)

        client.post(path.replace("/case/", "/draft/"), data={f"{EDIT}:unchanged_regions": "6"})
        assert rated() == []
        client.post(path, data=answers(5))
        assert rated() == ["1"]


def test_the_start_page_puts_no_cases_in_order(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes long for a large run, and longer for each rater."""
    for name in ("Ana", "Bo"):
        client.post(begin(client, rater=name), data=answers(4))
    monkeypatch.setattr("beholder.reviews.review.order_cases", None)
    page = client.get(f"/review/run/{RUN}")
    assert page.status_code == 200
    assert page.text.count("1 of 12 rated</span>") == 2


def test_a_quota_of_a_run_without_cases_is_told_on_the_form(tmp_path: Path, started: Started) -> None:
    with Ledger.open(tmp_path / "empty.db", create=True) as ledger:
        ledger.start(run_record(RUN, rubrics=(msgspec.to_builtins(load_rubric(EDIT)),)))
    site = started(tmp_path / "empty.db")
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as client:
        data = {"rater": "Ana", "order": "quota", "group": "model"}
        page = client.post(f"/review/run/{RUN}", data=data)
        assert page.status_code == 400
        assert "No case of this run is in a group" in page.text
        assert client.post(f"/review/run/{RUN}", data={"rater": "Ana"}).status_code == 200


def test_a_picture_that_the_judge_was_not_sent_is_scaled_and_kept(tmp_path: Path, started: Started) -> None:
    large = tmp_path / "large.png"
    Image.new("RGB", (2000, 1000), (90, 120, 30)).save(large)
    with edits(tmp_path / "ledger.db", 12) as ledger:
        for one in list(ledger.stored_verdicts(RUN)):
            case = replace(ledger.case(RUN, one.verdict.case), images={"input": str(large), "edited": "/gone.png"})
            ledger.write(RUN, [Entry(one.position, case, replace(one.verdict, images=()))])
    site = started(tmp_path / "ledger.db")
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as client:
        path = begin(client)
        first = client.get(f"{path}/0.webp")
        assert Image.open(io.BytesIO(first.content)).size == (1600, 800)
        with monkeypatched("beholder.web.pages.case.make_thumbnail"):
            assert client.get(f"{path}/0.webp").content == first.content
        assert client.get(f"{path}/1.webp").status_code == 404


@contextmanager
def monkeypatched(name: str) -> Iterator[None]:
    """Without that function."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name, None)
        yield


def test_an_older_draft_that_comes_late_changes_nothing(client: httpx.Client) -> None:
    path = begin(client)
    draft = path.replace("/case/", "/draft/")
    asked = f"{EDIT}:unchanged_regions"
    for turn, score in (("page.2", "6"), ("page.1", "3")):
        assert client.post(draft, params={"turn": turn}, data={asked: score}).json() == {"kept": True}
    assert re.findall(r'value="(\d)" data-pick="\d" checked', client.get(path).text) == ["6"]
    client.post(draft, params={"turn": "page.3"}, data={asked: "2"})
    assert re.findall(r'value="(\d)" data-pick="\d" checked', client.get(path).text) == ["2"]


def test_what_was_begun_is_there_again_and_does_not_count(client: httpx.Client, place: Path) -> None:
    path = begin(client)
    kept = client.post(path.replace("/case/", "/draft/"), data={f"{EDIT}:unchanged_regions": "6", "comment": "so far"})
    assert kept.json() == {"kept": True}
    begun = client.get(_path(client.get(path.split("/case/")[0] + "/next")))
    assert _path(begun) == path
    assert re.search(r'value="6" data-pick="6" checked', begun.text)
    assert "so far</textarea>" in begun.text
    with Ledger.open(place, read_only=True) as ledger:
        [review] = list_reviews(ledger, RUN)
        assert [one.scored for one in ledger.verdicts(review.id)] == [False]
    client.post(path, data=answers(4))
    assert client.post(path.replace("/case/", "/draft/"), data=answers(1)).json() == {"kept": False}


@pytest.mark.parametrize(
    "wrong", [{"foo": "bar"}, {f"{EDIT}:unchanged_regions": "9"}, {f"{EDIT}:unchanged_regions": "much"}]
)
def test_a_draft_that_is_no_answer_is_refused_and_nothing_of_it_is_kept(
    client: httpx.Client, place: Path, wrong: dict[str, str]
) -> None:
    path = begin(client)
    answer = client.post(path.replace("/case/", "/draft/"), data={"comment": "so far"} | wrong)
    assert answer.status_code == 400
    assert answer.json()["kept"] is False
    assert answer.json()["why"]
    with Ledger.open(place, read_only=True) as ledger:
        [review] = list_reviews(ledger, RUN)
        assert list(ledger.verdicts(review.id)) == []


def test_a_name_under_which_nothing_was_saved_is_no_rater_and_can_be_removed(client: httpx.Client, place: Path) -> None:
    path = begin(client)
    client.post(path.replace("/case/", "/draft/"), data={f"{EDIT}:unchanged_regions": "6"})
    review = path.split("/")[2]
    assert "Rated by" not in client.get("/review").text
    assert f"/review/{review}/remove" in client.get(f"/review/run/{RUN}").text
    client.post(path, data=answers(4))
    assert "Rated by" in client.get("/review").text
    assert f"/review/{review}/remove" not in client.get(f"/review/run/{RUN}").text
    refused = client.post(f"/review/{review}/remove")
    assert refused.status_code == 400
    assert "has saved ratings" in refused.text
    other = begin(client, "Typo").split("/")[2]
    assert _path(client.post(f"/review/{other}/remove")) == f"/review/run/{RUN}"
    with Ledger.open(place, read_only=True) as ledger:
        assert [one.rater for one in list_reviews(ledger, RUN)] == ["Ana"]


def test_pages_use_the_rubrics_own_words_and_only_keys_that_there_are(tmp_path: Path, started: Started) -> None:
    with restyles(tmp_path / "words.db", "Anime") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        record_rating(ledger, review, "photo-00000/model-a", answers(5, styled(), "no"))
    with httpx.Client(base_url=started(tmp_path / "words.db"), trust_env=False) as client:
        label = re.search(r"/case/([^\"?]+)", client.get(f"/review/{review.id}").text)
        assert label is not None
        page = client.get(f"/review/{review.id}/case/{label[1]}").text
        form = client.get(f"/review/{review.id}/case/{label[1]}", params={"change": 1}).text
    assert "Accuracy: you said 5" in page
    assert "accuracy.score" not in page
    assert "Exceptional value" in page
    assert not re.search(r">Exceptional(?! value)", page)
    assert not re.search(r"[^\w]-\d", re.sub(r"<[^>]+>", "", page))
    assert "Change a rating" in form
    assert "Case <span" not in form
    assert "<kbd>1</kbd> … <kbd>5</kbd>" in form
    assert "tenths" not in form


def test_a_wrong_answer_is_told_and_nothing_typed_is_lost(client: httpx.Client) -> None:
    path = begin(client)
    page = client.post(path, data=answers(6) | {f"{EDIT}:unchanged_regions": "9", "comment": "all this"})
    assert page.status_code == 400
    assert "1 to 7" in page.text
    assert "all this</textarea>" in page.text
    assert client.post(path, data={}).status_code == 400


def test_a_rating_can_be_changed(client: httpx.Client) -> None:
    path = begin(client)
    client.post(path, data=answers(6))
    form = client.get(path, params={"change": 1})
    assert form.text.count('value="6" data-pick="6" checked') == 3
    client.post(path, data=answers(3))
    assert client.get(path, params={"change": 1}).text.count('value="3" data-pick="3" checked') == 3


@pytest.mark.parametrize(
    "name", [NASTY, "../../etc/passwd", "'; DROP TABLE runs; --", "{{ 1234567 * 7 }}", "名前 🙂", "%00%2e"]
)
def test_a_hostile_name_is_only_a_name(client: httpx.Client, name: str) -> None:
    path = begin(client, rater=name)
    pages = [path, path.split("/case/")[0], f"/review/run/{RUN}", "/review"]
    client.post(path, data=answers(4))
    for one in pages:
        page = client.get(one)
        assert page.status_code == 200
        assert NASTY not in page.text
        assert "8641969" not in page.text
        assert name in unescape(page.text)
    table = client.get(path.split("/case/")[0] + "/ratings.csv")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="ratings-[\w-]+\.csv"', table.headers["content-disposition"])


@pytest.mark.parametrize(
    "data",
    [{}, {"rater": " "}, {"rater": "a" * 65}, {"rater": "Ana", "order": "best"}, {"rater": "Ana", "order": "quota"}]
    + [{"rater": "Ana", "order": "quota", "group": "model", "each": each} for each in ("-1", "x", "9" * 9)]
    + [{"rater": "Ana", "order": "quota", "group": "colour"}],
)
def test_what_cannot_begin_is_told_on_the_form_and_nothing_begins(
    client: httpx.Client, place: Path, data: dict[str, str]
) -> None:
    page = client.post(f"/review/run/{RUN}", data=data)
    assert page.status_code == 400
    assert 'role="alert"' in page.text
    with Ledger.open(place, read_only=True) as ledger:
        assert list_reviews(ledger, RUN) == []


def test_a_digit_of_another_script_is_a_number_of_cases(client: httpx.Client) -> None:
    path = begin(client, order="quota", group="model", each="١")
    assert 'max="2"' in client.get(path).text  # one of each of two models


def test_ratings_are_exported_as_case_rater_aspect_score(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beholder.web.pages.review.CSV_CHUNK_LINES", 3)  # so that they come in several parts
    for name in ("Ana", "Bo"):
        client.post(begin(client, rater=name, order="audit"), data=answers(5))
    lines = client.get(f"/review/run/{RUN}/ratings.csv").text.splitlines()
    assert lines[0] == "case,rater,aspect,score"
    assert "photo-00007/model-a,Bo,unchanged_regions,5" in lines
    assert len(lines) == 1 + 2 * 4


def test_two_raters_at_once_lose_nothing(site: str, place: Path) -> None:
    wrong: list[str] = []

    def go(name: str, score: int) -> None:
        with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as client:
            path = begin(client, rater=name, hide="1")
            for _ in range(12):
                client.post(path.replace("/case/", "/draft/"), data=answers(score))
                page = client.post(path, data=answers(score))
                if page.status_code != 200:
                    wrong.append(page.text)
                path = _path(page)

    threads = [threading.Thread(target=go, args=(name, score)) for name, score in (("Ana", 2), ("Bo", 6), ("Cy", 4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with Ledger.open(place, read_only=True) as ledger:
        found = {
            review.rater: [one.criteria["unchanged_regions"].score for one in ledger.verdicts(review.id)]
            for review in list_reviews(ledger, RUN)
        }
    assert found == {"Ana": [2] * 12, "Bo": [6] * 12, "Cy": [4] * 12}


@pytest.mark.parametrize(
    "path",
    [
        *("/review/none", "/review/none/next", "/review/run/none", f"/review/{RUN}", f"/review/{RUN}/next"),
        *(f"/review/{RUN}/case/case-0", "/review/none/ratings.csv", "/review/run/none/ratings.csv"),
    ],
)
def test_what_is_not_there_is_told(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_label_of_another_rater_opens_nothing(client: httpx.Client) -> None:
    ana, bo = begin(client, rater="Ana"), begin(client, rater="Bo")
    mixed = ana.split("/case/")[0] + "/case/" + bo.split("/case/")[1]
    assert client.get(mixed).status_code == 404
    assert client.post(mixed, data=answers()).status_code == 404
    assert client.post(mixed.replace("/case/", "/draft/"), data=answers()).status_code == 404
    assert client.get(f"{ana}/9.webp").status_code == 404


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a=1&" * 3000])
def test_a_body_that_is_no_form_is_refused(client: httpx.Client, body: bytes) -> None:
    path = begin(client)
    for where in (f"/review/run/{RUN}", path, path.replace("/case/", "/draft/")):
        page = client.post(where, content=body)
        assert page.status_code == 400
        assert "not a form of this app" in page.text


@pytest.mark.parametrize("body", [b"%zz=%", b"{}"])
def test_a_form_without_any_answer_saves_nothing(client: httpx.Client, body: bytes) -> None:
    path = begin(client)
    assert client.post(path.replace("/case/", "/draft/"), content=body).status_code == 400
    for where in (f"/review/run/{RUN}", path):
        assert client.post(where, content=body).status_code == 400
    assert "checked" not in client.get(path).text


def test_a_post_from_elsewhere_is_refused(site: str, client: httpx.Client) -> None:
    path = begin(client)
    for where in (f"/review/run/{RUN}", path, path.replace("/case/", "/draft/")):
        page = client.post(where, data=answers(), headers={"Origin": "http://evil.example"})
        assert page.status_code == 403


def test_a_run_that_was_deleted_leaves_no_accident(client: httpx.Client, place: Path) -> None:
    path = begin(client)
    with Ledger.open(place, create=True) as ledger:
        ledger.delete(RUN)
    for one in (path, path.split("/case/")[0], path.split("/case/")[0] + "/next"):
        assert client.get(one).status_code == 404
    assert client.get("/review").status_code == 200


def test_a_restyle_asks_its_assertions_and_says_what_was_corrected(tmp_path: Path, started: Started) -> None:
    restyles(tmp_path / "styles.db", "Anime").close()
    site = started(tmp_path / "styles.db")
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as client:
        path = begin(client)
        form = client.get(path)
        for criterion in styled().criteria:
            for one in criterion.assertions:
                assert one.text in unescape(form.text)
        page = client.post(path, data=answers(5, styled()) | {"restyle:accuracy:A1": "no"})
        assert "1 failed assertion allows at most 4" in page.text
        assert "Answered differently" in page.text


def test_three_rubrics_are_one_form(tmp_path: Path, started: Started) -> None:
    families(tmp_path / "family.db").close()
    site = started(tmp_path / "family.db")
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers={"Origin": site}) as client:
        form = client.get(begin(client))
        assert form.text.count('data-ask="score"') == 12
