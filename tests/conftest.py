"""No test reaches beyond this machine: a connection or a look-up elsewhere fails, and so does the test that tried.
And a real browser and a real PostgreSQL for the tests that need them."""

from __future__ import annotations

import gc
import importlib.util
import ipaddress
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

import httpx
import pytest
import typer.main
from hypothesis import HealthCheck, settings
from support import postgres as postgres_support
from support.workers import P, T, work_in

from beholder.api.loop import _BackgroundWork
from beholder.images.memory import BUDGET_VARIABLE
from beholder.runs.worker_processes import DaemonThreadPool, WorkerPool, WorkerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# A deadline is a wall-clock assertion, and "too slow" says something of the machine only.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# What takes minutes, or shares something that takes long to start. Begun first it is done before the rest is, and all
# of it in one process: of what is left to do, the others take the end.
_FIRST = ("test_a_run_on_ray_is_a_run.py", "test_nothing_is_lost_or_paid_for_twice.py")

# What `make test-fast` leaves out: tests with a browser, a database server or a Ray cluster, ...
_SLOW_FIXTURES = {"browser", "postgres"}
# ... and files that start many processes or measure many images.
_SLOW_FILES = {
    "test_a_bad_image_is_one_plain_sentence.py",
    "test_a_batch_ends_whatever_its_provider_does.py",
    "test_a_batch_survives_being_killed.py",
    "test_a_copied_run_is_the_same_run.py",
    "test_a_budget_outlives_its_processes.py",
    "test_a_crash_is_no_missed_threshold.py",
    "test_a_foreign_judge_is_brought_along.py",
    "test_a_plan_asks_nobody.py",
    "test_a_judge_of_your_own_may_fail.py",
    "test_a_ledger_that_vanishes_stops_its_run.py",
    "test_a_pull_request_shows_what_was_judged.py",
    "test_a_report_is_one_harmless_file.py",
    "test_a_report_says_what_the_run_came_to.py",
    "test_a_report_stays_within_its_size.py",
    "test_a_review_is_blind_until_it_is_rated.py",
    "test_a_run_is_told_in_full.py",
    "test_a_run_on_ray_is_a_run.py",
    "test_a_run_under_way_is_not_deleted.py",
    "test_a_script_needs_no_main_guard.py",
    "test_a_session_ends_well.py",
    "test_a_shift_is_not_a_change.py",
    "test_a_sitting_goes_on_where_it_was.py",
    "test_a_strangers_suite_takes_no_secrets.py",
    "test_a_suite_is_run_from_anywhere.py",
    "test_a_template_gets_plain_data_and_little_time.py",
    "test_aligning_benchmark.py",
    "test_aligning_says_what_people_would.py",
    "test_an_estimate_covers_what_people_would_say.py",
    "test_an_exam_is_the_same_to_the_byte.py",
    "test_answers_under_way_are_shared.py",
    "test_any_bytes_are_rows.py",
    "test_batches_and_exams_are_begun_from_python.py",
    "test_batches_are_handed_in_and_collected.py",
    "test_calibrate_learns_what_people_would_say.py",
    "test_compare_and_history.py",
    "test_damage_is_a_sentence_and_the_rest_is_shown.py",
    "test_damage_rises_and_stays_outside_the_edit.py",
    "test_decoding_keeps_to_its_memory.py",
    "test_description_has_no_number_where_there_is_no_meaning.py",
    "test_doctor_looks_at_every_server.py",
    "test_every_paper_can_be_judged_and_says_its_truth.py",
    "test_everything_shown_is_harmless.py",
    "test_exports_are_whole_and_harmless.py",
    "test_images_are_judged_in_pytest.py",
    "test_instruments_are_found.py",
    "test_it_installs_anywhere.py",
    "test_it_stays_small.py",
    "test_judging_works_in_any_thread_and_loop.py",
    "test_kill_nine_leaves_a_sound_file.py",
    "test_lists_are_filtered_by_the_database.py",
    "test_luck_does_not_pass.py",
    "test_measure_says_what_the_pixels_say.py",
    "test_misses_are_told.py",
    "test_no_platform_is_left_out.py",
    "test_no_request_breaks_the_app.py",
    "test_nothing_is_lost_or_paid_for_twice.py",
    "test_one_process_holds_a_run.py",
    "test_people_rate_in_label_studio.py",
    "test_people_stand_beside_the_judge.py",
    "test_processes_share_a_session.py",
    "test_ratings_go_out_and_come_in.py",
    "test_real_answers_are_read.py",
    "test_requests.py",
    "test_requests_are_spread_over_servers.py",
    "test_restyle_knows_the_photo_under_the_style.py",
    "test_runs_and_exports.py",
    "test_runs_are_looked_through.py",
    "test_several_images_in_one_role_are_shown_in_order.py",
    "test_several_processes_share_a_run.py",
    "test_the_alignment_claims_are_honest.py",
    "test_the_card_tells_judges_apart.py",
    "test_the_demo_is_sound.py",
    "test_the_docs_run.py",
    "test_the_first_visit_is_as_quick_as_the_next.py",
    "test_the_instruments_judge_on_edits.py",
    "test_the_instruments_judge_on_restyles.py",
    "test_the_offline_judge_catches_most.py",
    "test_the_report_command.py",
    "test_the_tour_runs.py",
    "test_the_view_command.py",
    "test_thumbnails_are_small_and_upright.py",
    "test_two_processes_share_a_ledger.py",
    "test_verdicts.py",
    "test_what_checks_find_out.py",
    "test_what_is_not_the_demos_is_left_alone.py",
    "test_what_is_written_is_read_back.py",
    "test_what_was_learned_from_is_found_again_by_name.py",
    "test_who_may_sit_and_in_what.py",
    "test_without_a_judge_the_instruments_measure.py",
    "test_work_can_be_stopped.py",
    "test_workers_on_ray_keep_to_what_a_run_may_use.py",
    "test_workers_share_a_run.py",
}

# typer builds all thirty commands for each call of the app: once for a process of ours, and here some thousand times.
typer.main.get_command = cache(typer.main.get_command)

# A client of httpx reads the certificates of all authorities when it is made, which takes 24 ms; nothing here has one.
pytest.MonkeyPatch().setattr("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context))

# What is imported and collected is no garbage: searched for some again and again, it takes longer than to collect it.
gc.disable()

_tried: list[str] = []

# A shell starts background jobs with SIGINT ignored, and children inherit that: no test of Ctrl-C could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_idle_workers: list[WorkerProcess] = []


class _KeepingPool(WorkerPool):
    """Leaves its processes to the pools after it: to start one, which imports numpy and OpenCV, takes more CPU than
    most runs of the tests. A pool whose processes have to know a memory budget starts its own."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        if BUDGET_VARIABLE not in os.environ:
            self._idle_workers = _idle_workers

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._idle_workers is _idle_workers:
            DaemonThreadPool.shutdown(self, wait, cancel_futures=cancel_futures)
        else:
            super().shutdown(wait, cancel_futures=cancel_futures)

    def _call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return super()._call(work_in, os.getcwd(), work, *args, **kwargs)


@pytest.fixture(scope="session", autouse=True)
def _keep_workers() -> Iterator[None]:
    """What is promised of worker processes themselves is tested without this, or in processes that know nothing of it:
    test_a_script_needs_no_main_guard.py, test_decoders_end_with_their_run.py."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_idle_workers.clear)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beholder.runs.image_pool.WorkerPool", _KeepingPool)
        patch.setattr("beholder.runs.worker_processes.WorkerPool", _KeepingPool)
        yield
    _end_idle_workers()


def _end_idle_workers() -> None:
    while _idle_workers:
        _idle_workers.pop().close()


@pytest.fixture
def own_workers() -> None:
    """For a test that does something to its worker processes: none is there before it."""
    _end_idle_workers()


@pytest.fixture
def asked_to_stop(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a run of this process is asked to stop. It looks at its caller's event ten times a second only, between
    which it can ask a quick judge for everything."""
    asked, ask_to_stop = threading.Event(), _BackgroundWork.ask_to_stop

    def ask(work: _BackgroundWork) -> None:
        ask_to_stop(work)
        asked.set()

    monkeypatch.setattr(_BackgroundWork, "ask_to_stop", ask)
    return asked


@pytest.fixture
def carried_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Sequence[str]], tuple[int, str, str]]:
    """Carries out the words after `beholder` in this process: the exit code, and what was said on both ways out."""
    from beholder.cli import main

    def carry_out(words: Sequence[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["beholder", *words])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return carry_out


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _FIRST.index(item.path.name) if item.path.name in _FIRST else len(_FIRST))
    for item in items:
        if (
            item.path.name in _SLOW_FILES
            or item.path.parent.name == "integrations"
            or _SLOW_FIXTURES & set(getattr(item, "fixturenames", ()))
        ):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def _here(host: object) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name).split("%")[0]).is_loopback
    except ValueError:
        return False


# A test that names no ledger works in a folder of its own: it would leave this file behind, and find it the next time.
_LEDGER_HERE = f"{Path(__file__).parent.parent.as_uri()}/beholder.db"


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event == "sqlite3.connect" and str(args[0]).startswith(_LEDGER_HERE):
        raise RuntimeError("this test opens a ledger in the working folder; name one, or go to tmp_path")
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if _here(host) or host == "0.0.0.0":
        return
    # RFC 6761 reserves .invalid for names that never resolve: asking for one is a test of just that.
    if not str(host).endswith(".invalid"):
        _tried.append(str(host))
    raise socket.gaierror(socket.EAI_NONAME, f"the test session refuses the network: {host}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _stays_on_loopback() -> Iterator[None]:
    _tried.clear()
    yield
    assert not _tried, f"this test tried to reach {', '.join(_tried)}"


@pytest.fixture(autouse=True)
def _trusts_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A test begins without trusted suites, and never touches those of whoever runs it."""
    monkeypatch.setenv("BEHOLDER_TRUST_FILE", str(tmp_path_factory.getbasetemp() / f"trusted-{uuid4().hex}.txt"))


@pytest.fixture
def tried_hosts() -> list[str]:
    """The hosts that were refused; a test that means to try one clears it."""
    return _tried


@pytest.fixture(scope="module")  # no wider: while it is open an event loop runs in this thread, and no other may
def browser() -> Iterator[Browser]:
    """Chromium. On a build server it must be there; elsewhere its tests are left out, with the reason."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _lacking("the Python package playwright is not installed")
    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if place is None:
        _lacking("there is no Chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def violations() -> Callable[[Page], list[tuple[str, list[str]]]]:
    """What axe-core finds wrong with a page: the rule, and some of the elements that break it."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        _lacking("the Python package axe-playwright-python is not installed")
    axe = Axe()

    def violations(page: Page) -> list[tuple[str, list[str]]]:
        page.wait_for_load_state("load")  # elements are there before the stylesheet is: their colors would be wrong
        found = axe.run(page).response["violations"]
        return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]

    return violations


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_support.Server]:
    """A PostgreSQL server of our own. On a build server there must be one; elsewhere its tests are left out, with the
    reason."""
    if importlib.util.find_spec("psycopg") is None:
        _lacking("the Python package psycopg is not installed", what="PostgreSQL to test with")
    programs = postgres_support.programs()
    if programs is None:
        _lacking("there is no initdb on the path or in /usr/lib/postgresql", what="PostgreSQL to test with")
    server = postgres_support.Server(programs)
    yield server
    server.end()


def _lacking(why: str, what: str = "browser to test in") -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no {what}: {why}")
    pytest.skip(f"no {what}: {why}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the repository that holds the seeds and the data; continuous integration must have it."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"CI runs with the shared folder, and {folder} is not there")
        pytest.skip(f"the shared folder is not at {folder}")
    return folder
