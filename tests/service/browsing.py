"""A real service and a real Chromium for the tests of the dashboard."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)

from unfit.store.access import Access
from unfit.workspace import Workspace
from unfit.workspace.keeper import now

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Service:
    """`unfit serve` on a workspace, with tokens for every role."""

    def __init__(self, folder: Path, url: str, process: subprocess.Popen[str]) -> None:
        self.folder, self.url, self.process = folder, url, process
        self.tokens: dict[str, str] = {}

    def token(self, *roles: str) -> str:
        name = " ".join(roles)
        if name not in self.tokens:
            with Workspace(self.folder) as ws:
                self.tokens[name] = Access(ws.store).create(name, roles, now())[1]
        return self.tokens[name]

    def worker(self) -> int:
        """The process that applies erasures."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for pid in children.split():
            if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return int(pid)
        raise AssertionError("there is no worker")

    @contextmanager
    def worker_stopped(self) -> Iterator[None]:
        pid = self.worker()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def serving(folder: Path) -> Iterator[Service]:
    command = [sys.executable, "-m", "unfit.cli", "serve", "-w", str(folder), "--port", "0"]
    with (folder.parent / "service.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        found = re.search(r"http://\S+?(?=/?\s)", process.stdout.readline())
        assert found, (folder.parent / "service.log").read_text()
        try:
            yield Service(folder, found[0].rstrip("/"), process)
        finally:
            process.terminate()
            process.wait(20)
            process.stdout.close()


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield made
        made.close()


class Watched:
    """A page and everything that it must not do."""

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.wrong: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(15_000)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on(
            "request",
            lambda request: (
                None if request.url.startswith(home) else self.wrong.append(request.url)
            ),
        )
        self.home = home

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.home):
            self.wrong.append(f"another host: {request.url}")

    def sign_in(self, token: str) -> Page:
        self.page.goto(f"{self.home}/sign-in")
        self.page.fill("#token", token)
        self.page.click("button[type=submit]")
        self.page.wait_for_selector("nav")
        return self.page
