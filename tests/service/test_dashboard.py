"""Every page and every action of the dashboard, in Chromium, on a real service."""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import browsing
import httpx
import pytest
import services
from browsing import Service, Watched
from playwright.sync_api import Browser, Page, expect
from services import until
from workspaces import make

PAGES = {
    "/": "Overview",
    "/erasures": "Erasures",
    "/erasures/1": "Erasure 1",
    "/audits": "Audits",
    "/audits/1": "Audit 1",
    "/certificates": "Certificates",
    "/versions": "Versions",
    "/versions?a=1&b=2": "Versions",
    "/method": "FISHER",
    "/settings": "Settings",
}
NASTY = "<img src=x onerror=alert(1)>' OR 1=1 --"

pytestmark = pytest.mark.skipif(browsing.chromium() is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    kept = make(tmp_path_factory.mktemp("dashboard") / "w", None, audit_window="30d")
    with kept.open() as ws:
        for person in range(3, 9):
            ws.forget(subjects=[f"p{person:04d}"])
    with services.served(kept.folder) as running:
        yield Service(running)


@pytest.fixture(scope="module")
def audited(service: Service) -> Service:
    """The same with an audit: every page has something to show."""
    with service.running.client as api:
        api.post("/v1/audits", json={}).raise_for_status()
        until(lambda: api.get("/v1/audits/1").json()["state"] == "done", "the audit")
    return service


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsing.browser() as made:
        yield made


@pytest.fixture
def shoot(tmp_path: Path) -> Callable[[Page, str], None]:
    """Keeps a screenshot, where UNFIT_SCREENSHOTS says so."""
    folder = Path(os.environ.get("UNFIT_SCREENSHOTS", tmp_path))
    folder.mkdir(exist_ok=True)
    return lambda page, name: page.screenshot(path=folder / f"{name}.png", full_page=True)


@pytest.fixture
def watched(chromium: Browser, service: Service) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    made = Watched(context, service.url)
    yield made
    context.close()
    assert made.wrong == []


@pytest.fixture
def page(watched: Watched, service: Service) -> Page:
    return watched.sign_in(service.token("admin"))


@pytest.mark.slow
@pytest.mark.usefixtures("audited")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_opens_and_draws_its_charts(
    chromium: Browser, service: Service, shoot: Callable[[Page, str], None], scheme: str
) -> None:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    watched = Watched(context, service.url)
    page = watched.sign_in(service.token("admin"))
    for path, title in PAGES.items():
        answer = page.goto(service.url + path)
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("h1")).to_have_text(title)
        expect(page.locator("nav [aria-current=page]")).to_have_count(1)
        for chart in page.locator(".chart").all():
            expect(chart.locator("svg.marks")).to_be_visible()
        shoot(page, f"{scheme}{path.replace('/', '-').replace('?', '-')}")
    context.close()
    assert watched.wrong == []


@pytest.mark.slow
@pytest.mark.usefixtures("audited")
def test_the_pages_fit_a_small_screen(
    chromium: Browser, service: Service, shoot: Callable[[Page, str], None]
) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = Watched(context, service.url).sign_in(service.token("admin"))
    for path in PAGES:
        page.goto(service.url + path)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"{path} is wider than the screen"
        shoot(page, f"small{path.replace('/', '-').replace('?', '-')}")
    context.close()


@pytest.mark.slow
@pytest.mark.usefixtures("audited")
def test_without_scripts_the_facts_are_there(
    chromium: Browser, service: Service, shoot: Callable[[Page, str], None]
) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = Watched(context, service.url).sign_in(service.token("admin"))
    expect(page.locator(".fact")).to_have_count(8)
    expect(page.locator(".chart svg").first).to_be_visible()
    expect(page.locator("main")).to_contain_text("within the threshold")
    shoot(page, "plain")
    page.goto(f"{service.url}/erasures")
    page.fill("#ids", "p0020")
    page.click("text=Submit the erasure")
    expect(page.locator(".tag").first).to_have_text("in force")  # the page asks again by itself
    for path, title in PAGES.items():
        page.goto(service.url + path)
        expect(page.locator("h1")).to_have_text(title)
    context.close()


@pytest.mark.slow
def test_only_a_known_token_signs_in(watched: Watched, service: Service) -> None:
    page = watched.page
    page.goto(f"{service.url}/versions")
    expect(page).to_have_url(f"{service.url}/sign-in?next=/versions")
    page.fill("#token", "unfit_00000000_wrong")
    page.click("button[type=submit]")
    expect(page.locator("[role=alert]")).to_have_text("This token is unknown or was revoked.")
    page.fill("#token", service.token("predict"))
    page.click("button[type=submit]")
    expect(page.locator("[role=alert]")).to_contain_text("may only request predictions")
    page.fill("#token", service.token("operate"))
    page.click("button[type=submit]")
    expect(page).to_have_url(f"{service.url}/versions")
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    page.click("text=Sign out")
    expect(page).to_have_url(f"{service.url}/sign-in")
    again = httpx.get(f"{service.url}/", cookies={cookie["name"]: cookie["value"]})
    assert again.status_code == 303
    watched.wrong = [w for w in watched.wrong if "401" not in w and "403" not in w]


def test_an_erasure_is_filed_and_followed_until_it_is_in_force(
    page: Page, service: Service, shoot: Callable[[Page, str], None]
) -> None:
    page.goto(f"{service.url}/erasures")
    with service.worker_stopped():
        page.fill("#ids", "p0010\np0011\nnobody")
        page.click("text=Submit the erasure")
        expect(page.locator(".tag").first).to_have_text("pending")
        shoot(page, "waiting")
    partly = page.locator(".tag").first  # without anybody's doing
    expect(partly).to_have_text("in force, 1 matched nobody")
    main = page.locator("main")
    expect(main).to_contain_text("Before and after")
    expect(page.locator("dt:text-is('Forgotten') + dd")).to_contain_text("2, with")
    expect(page.locator("dt:text-is('Matched nobody') + dd")).to_contain_text("1, nobody")
    expect(main).not_to_contain_text("p0010")


@pytest.mark.slow
def test_a_person_is_looked_up(page: Page, service: Service) -> None:
    def look_up(person: str) -> None:
        page.goto(f"{service.url}/erasures")
        page.fill("#subject", person)
        page.click("text=Look up")

    look_up("p0012")
    expect(page.locator("#look-up .tag").first).to_have_text("remembered")
    look_up("p0003")
    expect(page.locator("#look-up .tag").first).to_have_text("forgotten")
    page.click("#look-up a")
    expect(page.locator("h1")).to_have_text("Erasure 1")
    look_up(NASTY)
    expect(page.locator("#look-up .tag").first).to_have_text("unknown")
    expect(page.locator("#look-up strong")).to_have_text(NASTY)  # as text
    assert "p0012" not in page.url


@pytest.mark.slow
def test_an_erasure_that_waits_is_cancelled(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/erasures")
    with service.worker_stopped():
        page.fill("#ids", "p0013")
        page.click("text=Submit the erasure")
        page.click("text=Cancel the erasure")
        expect(page.locator(".tag").first).to_have_text("cancelled")
    page.goto(f"{service.url}/erasures")
    page.fill("#subject", "p0013")
    page.click("text=Look up")
    expect(page.locator("#look-up .tag").first).to_have_text("remembered")


@pytest.mark.slow
def test_a_form_that_says_nothing_is_told_so(
    watched: Watched, page: Page, service: Service
) -> None:
    page.goto(f"{service.url}/erasures")
    page.fill("#ids", "  \n ")
    page.click("text=Submit the erasure")
    expect(page.locator("[role=alert]")).to_contain_text("names nobody")
    page.goto(f"{service.url}/audits")
    page.fill("#threshold", "much")
    page.click("button:text-is('Start')")
    expect(page.locator("[role=alert]")).to_contain_text("threshold must be a number")
    page.goto(f"{service.url}/nowhere")
    expect(page.locator("[role=alert]")).to_contain_text("Page not found")
    page.goto(f"{service.url}/erasures/4711")
    expect(page.locator("[role=alert]")).to_contain_text("There is no erasure 4711")
    watched.wrong = [w for w in watched.wrong if "422" not in w and "404" not in w]


@pytest.mark.slow
def test_an_audit_is_started_and_read(
    page: Page, service: Service, shoot: Callable[[Page, str], None]
) -> None:
    page.goto(f"{service.url}/audits")
    page.fill("#threshold", "60")
    page.fill("#draws", "2")
    page.click("button:text-is('Start')")
    expect(page.locator("[role=progressbar]")).to_be_visible()
    expect(page.locator(".banner.good")).to_be_visible(timeout=40_000)
    expect(page.locator(".chart svg.marks").first).to_be_visible()
    shoot(page, "audited")
    page.click("text=Open the report as one page")
    expect(page.locator("h1")).to_contain_text("Audit of version")


@pytest.mark.slow
def test_versions_are_compared_exported_and_retrained(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/versions")
    page.fill("#a", "1")
    page.fill("#b", "3")
    page.click("text=Compare >> nth=1")
    expect(page.locator("#compared")).to_contain_text("Version 1 and version 3")
    with page.expect_download() as download:
        page.click("text=Export the active model")
    names = zipfile.ZipFile(io.BytesIO(download.value.path().read_bytes())).namelist()
    assert set(names) == {"model.safetensors", "card.json", "README.txt"}
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("button:text-is('Retrain')")
    expect(page.locator("tbody tr").first).to_contain_text("asked for", timeout=40_000)
    expect(page.locator("tbody .tag").first).to_have_text("retrained")


@pytest.mark.slow
def test_who_may_not_sees_no_door_and_finds_none(chromium: Browser, service: Service) -> None:
    context = chromium.new_context()
    page = Watched(context, service.url).sign_in(service.token("erase"))
    doors = ["Overview", "Erasures", "Certificates", "Method"]
    assert page.locator("nav a").all_inner_texts() == doors
    page.goto(f"{service.url}/versions")
    expect(page.locator("[role=alert]")).to_contain_text("This token may not do that")
    context.close()
    context = chromium.new_context()
    page = Watched(context, service.url).sign_in(service.token("audit"))
    page.goto(f"{service.url}/erasures")
    expect(page.locator("#ids")).to_have_count(0)
    page.goto(f"{service.url}/versions")
    expect(page.locator("button:text-is('Retrain')")).to_have_count(0)
    context.close()


@pytest.mark.slow
def test_a_change_wants_the_word_of_the_session(page: Page, service: Service) -> None:
    (cookie,) = page.context.cookies()
    with httpx.Client(cookies={cookie["name"]: cookie["value"]}) as stranger:
        for path, form in (
            ("/erasures", {"ids": "p0014"}),
            ("/people", {"subject": "p0014"}),
            ("/audits", {}),
            ("/retrainings", {}),
            ("/erasures/1/cancel", {}),
            ("/sign-out", {}),
        ):
            for word in ({}, {"csrf": "0" * 64}):
                answer = stranger.post(service.url + path, data=form | word)
                assert answer.status_code == 403, path
                assert "does not belong to your session" in answer.text


@pytest.mark.slow
def test_the_overview_keeps_itself_up_to_date(page: Page, service: Service) -> None:
    forgotten = page.locator(".fact", has_text="People forgotten").locator(".value")
    before = int(forgotten.inner_text())
    with service.running.client as api:
        api.post("/v1/erasures", json={"subjects": ["p0015"]}).raise_for_status()
    expect(forgotten).to_have_text(str(before + 1))
    with service.worker_stopped():
        expect(page.locator(".banner.bad")).to_contain_text("No worker", timeout=20_000)
    expect(page.locator(".banner.good")).to_be_visible(timeout=20_000)


@pytest.mark.slow
def test_pages_work_by_keyboard(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/erasures")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("input:not([type=hidden]), textarea, select")]
            .filter(e => !e.labels.length).length"""
    )
    assert unnamed == 0
    page.focus("#ids")
    page.keyboard.type("p0016")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Erasure ")


@pytest.mark.slow
def test_an_erasure_that_matched_nobody_is_not_green_and_offers_who_was_meant(
    page: Page, service: Service, shoot: Callable[[Page, str], None]
) -> None:
    def colour(what: str) -> str:
        return str(page.locator(what).first.evaluate("e => getComputedStyle(e).color"))

    page.goto(f"{service.url}/erasures")
    page.fill("#ids", " P0021 ")
    page.click("text=Submit the erasure")
    expect(page.locator("#near")).to_contain_text("Did you mean")
    expect(page.locator("#panel .tag").first).to_have_text("matched nobody")
    unmatched = colour("#panel .tag")
    shoot(page, "matched-nobody")
    page.click("text=Forget p0021")
    expect(page.locator(".tag").first).to_have_text("in force")
    assert colour(".tag") != unmatched
    page.goto(f"{service.url}/erasures?state=unmatched")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(service.url)
    expect(page.locator(".banner.warn")).to_contain_text("matched nobody")
    page.goto(f"{service.url}/erasures")
    page.fill("#subject", "P0013")
    page.click("text=Look up")
    expect(page.locator("#near")).to_contain_text("Did you mean p0013?")
