"""The log: a line an event, none lost, nobody waits for it."""

import io
import json
import logging
import subprocess
import sys
import time

import pytest
from services import log_to, until

from unfit.service.log import EventRecord, LogOutput, log_event


class Slow(io.StringIO):
    """A disk that takes its time."""

    def write(self, text: str) -> int:
        time.sleep(0.2)
        return super().write(text)


def test_a_line_is_one_object() -> None:
    written = io.StringIO()
    log_event(log_to(written), "request", route="/v1/é\n", ms=1.5, token=None)
    (line,) = written.getvalue().splitlines()
    said = json.loads(line)
    assert said.pop("at").endswith("+00:00")
    assert said == {"event": "request", "route": "/v1/é\n", "ms": 1.5, "token": None}


@pytest.mark.alone
def test_lines_that_are_held_back_come_soon_and_all_of_them() -> None:
    written = Slow()
    output = LogOutput(written, batch_seconds=0.01)
    log = logging.Logger("a test")
    log.addHandler(output.handler)
    started = time.perf_counter()
    for i in range(500):
        log_event(log, "tick", i=i)
    assert time.perf_counter() - started < 0.15
    until(lambda: '"i":0}' in written.getvalue(), "the first line")
    log_event(log, "last")
    output.close()
    said = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["i"] for line in said[:-1]] == list(range(500))
    assert said[-1]["event"] == "last"


def test_a_reader_that_has_gone_stops_nothing() -> None:
    written = io.StringIO()
    written.close()
    log_event(log_to(written), "into the void")


def test_everything_a_process_says_is_a_line_of_the_log() -> None:
    """Warnings, what libraries log, and errors that nobody caught; without what they quote."""
    program = (
        "import logging, threading, warnings\n"
        "from unfit.service.log import LogOutput\n"
        "import uvicorn\n"
        "LogOutput().install()\n"
        "warnings.warn('careful')\n"
        "logging.getLogger('unfit').warning('the purge goes on later: %s', 'busy')\n"
        "uvicorn.Config('x:y', log_config=None)\n"
        "logging.getLogger('uvicorn.error').error('no such app')\n"
        "thread = threading.Thread(target=lambda: {}['Annabella'], name='t')\n"
        "thread.start(); thread.join()\n"
        "raise ValueError('Annabella')\n"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = [json.loads(line) for line in made.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["log"] * 3 + ["crashed"] * 2
    assert "careful" in lines[0]["message"]
    assert lines[1]["message"] == "the purge goes on later: busy"
    assert lines[2]["logger"] == "uvicorn.error"
    assert lines[3]["failure"].startswith("KeyError in <lambda>")
    assert lines[4]["failure"].startswith("ValueError in <module>")
    assert "Annabella" not in made.stderr
    assert made.returncode == 1


def test_an_event_can_be_formatted_by_any_handler() -> None:
    """An application or a test runner may have handlers of its own on the root logger."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(filename)s:%(lineno)d %(message)s"))
    handler.handle(EventRecord("unfit.service", "child-hangs", {"pid": 1}))
    assert written.getvalue() == "INFO :0 child-hangs\n"
