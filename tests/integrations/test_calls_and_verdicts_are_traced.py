"""OpenTelemetry, with the real SDK: spans for calls, events for verdicts, the span that made an image as their parent,
and no score where there is none; nothing unless it is asked for."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.host_scripts import PAIR, REFUSAL, WORDS, doc_example, edit_answer, run_script, write_pair
from support.hosts import python_host

from beholder.cli import main
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

Run = Callable[..., Any]

# Sends everything to memory, and prints it as JSON in the end: `spans`, and `events` with their parents.
HEAD = f"""
import json, beholder as b
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from beholder.integrations import otel
SPANS, EVENTS = InMemorySpanExporter(), InMemoryLogRecordExporter()
trace.set_tracer_provider(TracerProvider()); _logs.set_logger_provider(LoggerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(SPANS))
_logs.get_logger_provider().add_log_record_processor(SimpleLogRecordProcessor(EVENTS))
PAIR = {PAIR!r}
def case(id="c", instruction="make the car red", **groups):
    return b.Case(id, PAIR, {{"instruction": instruction}}, groups)
def show():
    spans = [
        {{"name": s.name, "kind": s.kind.name, "status": s.status.status_code.name,
         "trace": f"{{s.context.trace_id:032x}}", "parent": s.parent and f"{{s.parent.span_id:016x}}",
         "id": f"{{s.context.span_id:016x}}", **s.attributes}}
        for s in SPANS.get_finished_spans()
    ]
    events = [
        {{"event": e.log_record.event_name, "trace": f"{{e.log_record.trace_id or 0:032x}}",
         "parent": f"{{e.log_record.span_id or 0:016x}}", **e.log_record.attributes}}
        for e in EVENTS.get_finished_logs()
    ]
    print(json.dumps({{"spans": spans, "events": events}}))
"""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(edit_answer(6), keyless=True) as server:
        yield server


@pytest.fixture(scope="module")
def python() -> Path:
    return python_host("otel", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")


@pytest.fixture
def run(python: Path, server: JudgeServer, tmp_path: Path) -> Run:
    """Runs a script after `HEAD`; returns its spans and events."""
    write_pair(tmp_path)
    return lambda body, **more: run_script(python, f"{HEAD}\n{body}\nshow()", tmp_path, server, **more)


ONE = 'otel.instrument(); b.judge("edit-preservation", case(), judge="openai:m", options={"threshold": 0.8})'
FAILURES: dict[str, str | Fault] = {
    "refused": REFUSAL,
    "filtered": Fault.filtered(),
    "invalid": "no JSON at all",
    "unreachable": Fault.status(400),
}


class TestAVerdict:
    def test_is_an_event_and_so_is_each_criterion(self, run: Run) -> None:
        found = run(ONE)
        assert {event["event"] for event in found["events"]} == {"gen_ai.evaluation.result"}
        whole, *criteria = found["events"]
        assert whole["gen_ai.evaluation.name"] == "edit-preservation"
        assert whole["gen_ai.evaluation.score.value"] == pytest.approx(5 / 6)
        assert whole["gen_ai.evaluation.score.label"] == "pass"
        assert (whole["beholder.case"], whole["beholder.judge"]) == ("c", "openai:m")
        assert len(whole["beholder.brief.digest"]) == 64
        assert [one["gen_ai.evaluation.name"] for one in criteria] == [
            f"edit-preservation.{key}" for key in ("unchanged_regions", "global_consistency", "identity_preservation")
        ]
        assert {one["gen_ai.evaluation.score.value"] for one in criteria} == {6.0}
        assert {one["gen_ai.evaluation.explanation"] for one in criteria} == {WORDS}

    def test_says_what_was_answered_no_where_a_criterion_has_no_reason(
        self, run: Run, server: JudgeServer, tmp_path: Path
    ) -> None:
        criterion = {"key": "light", "question": "Is it good?", "scale": [1, 7], "assertions": ["Is it soft?"]}
        images = [{"role": "edited", "label": "P"}]
        (tmp_path / "own.yaml").write_text(json.dumps({"rubric": "own", "images": images, "criteria": [criterion]}))
        found = {"id": "light_1", "answer": "No", "evidence": "hard edges"}
        server.default = {"criteria": {"light": {"assertions": [found], "score": 3}}}
        events = run('otel.instrument(); b.judge("own.yaml", edited="after.png", judge="openai:m")')["events"]
        [criteria] = [one for one in events if one["gen_ai.evaluation.name"] == "own.light"]
        assert criteria["gen_ai.evaluation.explanation"] == "Is it soft? hard edges"

    @pytest.mark.parametrize("outcome", FAILURES)
    def test_without_a_score_is_an_error_and_has_no_value(self, run: Run, server: JudgeServer, outcome: str) -> None:
        server.default = FAILURES[outcome]
        [event] = run(ONE)["events"]
        assert event["error.type"] == outcome
        assert event["gen_ai.evaluation.explanation"]
        assert "gen_ai.evaluation.score.value" not in event
        assert "gen_ai.evaluation.score.label" not in event

    def test_on_a_missing_image_asks_nobody(self, run: Run) -> None:
        found = run('PAIR["edited"] = "gone.png"\n' + ONE)
        assert [event["error.type"] for event in found["events"]] == ["unreadable"]
        assert found["spans"] == []

    def test_of_instruments_has_no_span(self, run: Run) -> None:
        found = run(ONE.replace('judge="openai:m", ', ""))
        assert found["spans"] == []
        assert found["events"][0]["beholder.judge"] == "instruments"

    def test_beyond_the_budget_is_an_error(self, run: Run) -> None:
        body = """
otel.instrument()
with b.Session("openai:m", budget=0.000001, options={"price": {"input": 1, "output": 1}}) as session:
    session.judge("edit-preservation", case())
"""
        found = run(body)
        assert [event["error.type"] for event in found["events"]] == ["over_budget"]
        assert found["spans"] == []  # the call was not made


class TestACall:
    def test_is_a_span_with_its_tokens_and_without_its_words(self, run: Run) -> None:
        [span] = run(ONE)["spans"]
        assert (span["name"], span["kind"]) == ("chat m", "CLIENT")
        assert span["gen_ai.operation.name"] == "chat"
        assert (span["gen_ai.provider.name"], span["gen_ai.request.model"]) == ("openai", "m")
        assert span["gen_ai.response.finish_reasons"] == ["stop"]
        assert span["gen_ai.usage.input_tokens"] > 0
        assert span["gen_ai.usage.output_tokens"] > 0
        told = str(span)
        assert "make the car red" not in told
        assert WORDS not in told
        assert "base64" not in told

    def test_that_fails_is_an_error(self, run: Run, server: JudgeServer) -> None:
        server.default = Fault.status(400)
        [span] = run(ONE)["spans"]
        assert (span["status"], span["error.type"]) == ("ERROR", "unreachable")

    def test_that_is_refused_was_answered(self, run: Run, server: JudgeServer) -> None:
        server.default = Fault.filtered()
        [span] = run(ONE)["spans"]
        assert (span["status"], span["gen_ai.response.finish_reasons"]) == ("UNSET", ["content_filter"])


class TestTheParent:
    ORIGIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    def test_is_the_span_that_made_the_image(self, run: Run) -> None:
        found = run(ONE.replace("case()", f"case(traceparent={self.ORIGIN!r})"))
        for one in [*found["spans"], *found["events"]]:
            assert (one["trace"], one["parent"]) == (self.ORIGIN[3:35], self.ORIGIN[36:52])

    def test_is_the_current_span_where_the_case_names_none_or_a_wrong_one(self, run: Run) -> None:
        body = f"""
with trace.get_tracer("app").start_as_current_span("outer"):
    {ONE}
    b.judge("edit-preservation", case(traceparent="from yesterday"), judge="openai:m")
"""
        found = run(body)
        outer = found["spans"].pop()
        assert outer["name"] == "outer"
        assert len(found["spans"]) == 2
        assert {one["parent"] for one in [*found["spans"], *found["events"]]} == {outer["id"]}

    def test_is_each_cases_own_where_many_are_judged_at_once(self, run: Run) -> None:
        body = """
otel.instrument()
cases = [case(f"c{n}", f"make it {n}", traceparent=f"00-{n + 1:032x}-{n + 1:016x}-01") for n in range(24)]
with b.Session("openai:m", ledger="b.db", name="many") as session:
    print(len(list(session.judge_many("edit-preservation", cases))))
    run = session.run_id
assert {e.log_record.attributes["beholder.run"] for e in EVENTS.get_finished_logs()} == {run}
"""
        found = run(body)
        assert len(found["spans"]) == 24
        assert len(found["events"]) == 24 * 4
        for one in [*found["spans"], *found["events"]]:
            assert int(one["trace"], 16) == int(one["beholder.case"][1:]) + 1


class TestUnlessItIsAskedFor:
    def test_nothing_is_recorded(self, run: Run) -> None:
        body = ONE.replace("otel.instrument()", "otel.instrument(); otel.uninstrument()")
        assert run(body) == {"spans": [], "events": []}

    def test_it_is_recorded_once_however_often_it_is_asked_for(self, run: Run) -> None:
        assert len(run(f"otel.instrument()\n{ONE}")["spans"]) == 1

    @pytest.mark.parametrize("ledger", ["None", "'l.db'"])
    def test_a_verdict_that_a_session_had_is_recorded_once(self, run: Run, ledger: str) -> None:
        body = f"""
otel.instrument()
with b.Session("openai:m", ledger={ledger}) as session:
    for id in ("c", "c", "d", "d", "c"):
        session.judge("edit-preservation", case(id))
"""
        found = run(body)
        assert len(found["spans"]) == 1
        assert [event["beholder.case"] for event in found["events"]] == ["c"] * 4 + ["d"] * 4


class TestTheFlag:
    def test_sends_spans_and_events_where_the_variables_say(
        self, python: Path, server: JudgeServer, tmp_path: Path
    ) -> None:
        write_pair(tmp_path)
        (tmp_path / "suite.yaml").write_text(
            'rubric: edit-preservation\njudges: [{judge: "openai:m"}]\ncases: cases.jsonl\n'
        )
        (tmp_path / "cases.jsonl").write_text(json.dumps({"id": "c", **PAIR, "instruction": "make the car red"}))
        received: dict[str, list[str]] = {}

        class Collector(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                received.setdefault(self.path, []).append(body.hex())
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
            threading.Thread(target=collector.serve_forever, daemon=True).start()
            code = """
import subprocess, sys
told = subprocess.run([sys.executable, "-m", "beholder", "run", "suite.yaml", "--otel", "-q"], capture_output=True)
print(told.stderr.decode(), file=sys.stderr)
print(told.returncode)
"""
            endpoint = f"http://127.0.0.1:{collector.server_address[1]}"
            assert run_script(python, code, tmp_path, server, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) == 0
            collector.shutdown()
        assert received.keys() == {"/v1/traces", "/v1/logs"}
        decode = f"""
import json
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest as Logs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces
received = {received!r}
spans = [s.name for body in received["/v1/traces"] for r in Traces.FromString(bytes.fromhex(body)).resource_spans
         for scope in r.scope_spans for s in scope.spans]
logs = [r for body in received["/v1/logs"] for r in Logs.FromString(bytes.fromhex(body)).resource_logs]
events = [e.event_name for r in logs for scope in r.scope_logs for e in scope.log_records]
service = [a.value.string_value for r in logs for a in r.resource.attributes if a.key == "service.name"]
print(json.dumps([spans, events, service]))
"""
        spans, events, service = run_script(python, decode, tmp_path, server)
        assert spans == ["chat m"]
        assert events == ["gen_ai.evaluation.result"] * 4
        assert service == ["beholder"]

    def test_says_what_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_pair(tmp_path)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
        words = ["beholder", "judge", "edit-preservation", *PAIR.values(), "--set", "instruction=x", "--otel"]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp" in capsys.readouterr().err


def test_the_example_of_the_docs_works(run: Run) -> None:
    example = doc_example("opentelemetry.md", "otel.instrument").replace("openai:gpt-5-mini", "openai:m")
    found = run(example)
    made = next(span for span in found["spans"] if span["name"] == "edit image")
    assert {event["parent"] for event in found["events"]} == {made["id"]}
