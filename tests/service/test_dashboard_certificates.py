"""The pages of certificates in Chromium, on a real service of a certified workspace."""

from collections.abc import Iterator

import browsing
import pytest
import services
from browsing import Service, Watched
from certified import make_certified, trained_people
from playwright.sync_api import Browser, Dialog, expect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browsing.chromium() is None, reason="Chromium is not installed"),
]
PAGES = ("/certificates", "/erasures/1", "/certificates/1/page")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    kept = make_certified(tmp_path_factory.mktemp("dashboard") / "w")
    with kept.open() as ws:
        for person in trained_people(ws)[:4]:
            ws.forget(subjects=[person])
    with services.served(kept.folder) as running:
        yield Service(running)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsing.browser() as made:
        yield made


@pytest.mark.parametrize("width", [390, 1280])
def test_the_pages_fit_and_draw(chromium: Browser, service: Service, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900})
    watched = Watched(context, service.url)
    page = watched.sign_in(service.token("admin"))
    for path in PAGES:
        answer = page.goto(service.url + path)
        assert answer is not None
        assert answer.status == 200, path
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"{path} is wider than the screen"
    page.goto(f"{service.url}/certificates")
    expect(page.locator(".chart svg.marks")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(5)
    with page.expect_download() as download:
        page.click("text=Export the log")
    assert download.value.suggested_filename == "log.jsonl"
    context.close()
    assert watched.wrong == []


def test_a_proof_is_handed_out_after_a_question(chromium: Browser, service: Service) -> None:
    context = chromium.new_context()
    watched = Watched(context, service.url)
    page = watched.sign_in(service.token("erase"))
    page.goto(f"{service.url}/erasures/1")
    questions: list[str] = []

    def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        dialog.dismiss() if len(questions) == 1 else dialog.accept()

    page.on("dialog", answer)
    page.click("text=Hand out the proof")  # the box is not ticked, so nothing is sent
    assert questions == []
    page.check("[name=confirmed]")
    page.click("text=Hand out the proof")
    assert len(questions) == 1
    expect(page.locator("h1")).to_have_text("Erasure 1")
    page.click("text=Hand out the proof")
    expect(page.locator("h1")).to_have_text("Certificate of forgetting")
    expect(page.locator("main")).to_contain_text("Your entry")
    page.goto(f"{service.url}/erasures/1")
    expect(page.locator("#certificate")).to_contain_text("It was handed out, or its time is over")
    context.close()
    assert watched.wrong == []
