"""A real service and a real Chromium for the tests of the dashboard."""

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import services
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)
from services import Running

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Service:
    """`unfit serve` on a workspace, with tokens for every role."""

    def __init__(self, running: Running) -> None:
        self.running, self.url = running, f"http://{running.host}:{running.port}"
        self.tokens: dict[str, str] = {"admin": running.token}

    def token(self, *roles: str) -> str:
        name = " ".join(roles)
        if name not in self.tokens:
            self.tokens[name] = services.token(self.running.folder, *roles)
        return self.tokens[name]

    @contextmanager
    def worker_stopped(self) -> Iterator[None]:
        """Between two of its transactions: in one, it would keep everybody from writing."""
        (pid,) = self.running.children("worker")
        os.kill(pid, signal.SIGSTOP)
        try:
            while not self._writable():
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            with suppress(ProcessLookupError):  # stopped for too long, it is replaced by another
                os.kill(pid, signal.SIGCONT)

    def _writable(self) -> bool:
        database = sqlite3.connect(self.running.folder / "unfit.db", timeout=1)
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        finally:
            database.close()
        return True


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
