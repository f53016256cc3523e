"""The page in a real browser, with the bundled model: what a writer does, and what may go wrong meanwhile.

`python tests/server/test_page.py` takes the screenshots of the docs anew.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from serving import free_port, running, serving

from xl_editor.models import bundled_models
from xl_editor.server.app import create_app

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
expect = playwright.expect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium, and none is installed"),
    pytest.mark.skipif("yelp" not in bundled_models(), reason="the model yelp is not bundled"),
]

LACKING = "The food was and the service great."
RUDE = "The waitress was rude and slow. I will not come back!"
PATIENCE = 20_000  # ms, on a machine that has other things to do
expect.set_options(timeout=PATIENCE)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server():
    with running("yelp", free_port()) as (address, _):
        yield address


@pytest.fixture
def visit(browser):
    """Opens a page as a new visitor; what the browser complains about fails the test, unless it is expected."""
    complaints, contexts = [], []

    def opened(address, **settings):
        context = browser.new_context(reduced_motion="reduce", **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    opened.complaints = complaints
    yield opened
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def page(visit, server):
    return visit(server)


def text_of(page):
    return page.get_by_label("Your text").get_by_role("textbox").input_value()


def expect_text(page, text):
    expect(page.get_by_role("textbox", name="Your text")).to_have_value(text)


def write(page, text):
    page.get_by_role("textbox", name="Your text").fill(text)


def wait_for_heat(page):
    page.locator("#drawing .gap").first.wait_for(state="attached")


def click_gap(page, tip):
    """Click where the drawing has this gap."""
    box = page.locator(f'#drawing .gap[data-tip*="{tip}"]').first.bounding_box()
    page.mouse.click(box["x"] - 2, box["y"] + box["height"] / 2)


def select(page, start, end):
    page.get_by_role("textbox", name="Your text").evaluate(
        "(area, [start, end]) => { area.focus(); area.setSelectionRange(start, end); }", [start, end]
    )


def revise(page):
    page.get_by_role("tab", name="Style").click()
    page.get_by_role("button", name="Revise").click()
    expect(page.locator("#outcome")).to_contain_text("The whole text")


def exported(page, kind):
    page.get_by_role("tab", name="History").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    return download.value.path().read_text(encoding="utf-8")


def expect_consistent(trace):
    text = trace["source"]
    for edit in trace["edits"]:
        assert text[edit["start"] : edit["end"]] == edit["removed"]
        text = edit["text"]
        assert text[slice(*edit["span"])] == edit["inserted"]
    assert text == trace["text"]


def test_type_see_the_heat_insert_undo_transfer_reject_export(page):
    write(page, LACKING)
    wait_for_heat(page)
    click_gap(page, "over 99.9")
    expect(page.locator("#asked")).to_have_text("Between “was” and “and”")
    best = page.locator("#suggestions button").first
    word = best.locator(".words").inner_text()
    best.click()
    expect_text(page, f"The food was {word} and the service great.")
    expect(best).to_have_attribute("aria-pressed", "true")
    best.click()
    expect_text(page, LACKING)
    page.locator("#suggestions button").nth(1).click()
    page.locator("#suggestions button").nth(2).click()  # instead of the one before, not on top of it
    second = page.locator("#suggestions button .words").nth(2).inner_text()
    expect_text(page, f"The food was {second} and the service great.")

    write(page, RUDE)
    revise(page)
    cards = page.locator(".edit")
    assert cards.count() == 2
    removed = cards.first.locator("del").inner_text()
    inserted = cards.first.locator("ins").inner_text()
    second = cards.nth(1).locator("ins").inner_text()
    assert "% → " in cards.first.inner_text()  # the classifier's swing
    assert "less likely in positive" in cards.first.inner_text()  # the odds
    assert inserted in text_of(page)
    cards.first.get_by_role("button", name="Reject").click()
    expect(cards.first).to_contain_text("Rejected")
    assert removed in text_of(page)
    assert second in text_of(page)
    cards.nth(1).get_by_role("button", name="Accept").click()
    expect(cards.nth(1)).to_contain_text("Accepted")

    now = text_of(page)
    assert exported(page, "text") == now
    diff = exported(page, "diff").splitlines()
    assert diff[:2] == ["--- before.txt", "+++ after.txt"]
    assert f"-{LACKING}" in diff
    assert f"+{now}" in diff
    trace = json.loads(exported(page, "JSON"))
    assert (trace["source"], trace["text"]) == (LACKING, now)
    expect_consistent(trace)
    assert {edit["by"] for edit in trace["edits"]} == {"insert", "typed", "style", "rejected"}

    states = page.locator("#states button")
    states.nth(1).click()
    expect_text(page, LACKING)
    states.last.click()
    expect_text(page, now)


def test_a_hovered_place_tells_its_number(page):
    write(page, f"{LACKING} My dog is purple seven.")
    wait_for_heat(page)
    box = page.locator('#drawing .gap[data-tip*="99.9"]').bounding_box()
    page.mouse.move(box["x"] - 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("tooltip")).to_contain_text("Something missing here:")
    word = page.locator("#drawing .piece", has_text="seven").first.bounding_box()
    page.mouse.move(word["x"] + word["width"] / 2, word["y"] + word["height"] / 2)
    expect(page.get_by_role("tooltip")).to_contain_text("worse than nothing")


def test_heat_on_sentences(page):
    write(page, "The food was great. My dog is purple seven.")
    wait_for_heat(page)
    page.get_by_label("Heat on").select_option("sentences")
    for word in ("My", "purple"):
        tip = page.locator("#drawing .piece", has_text="seven").get_attribute("data-tip")
        expect(page.locator("#drawing .piece", has_text=word)).to_have_attribute("data-tip", tip)


def test_selected_words_are_replaced_or_deleted(page):
    write(page, "My dog is purple. We will be back.")
    wait_for_heat(page)
    select(page, 19, 23)  # half of "We", and half of "will"
    expect(page.locator("#asked")).to_have_text("Instead of “We will”")
    expect(page.locator("#suggestions .suggestion").first).to_contain_text("likel")
    assert page.locator("#suggestions .suggestion").count() >= 8
    page.locator("#suggestions button", has_text="delete").click()
    expect_text(page, "My dog is purple. Be back.")
    page.get_by_role("button", name="↶ Undo").click()
    expect_text(page, "My dog is purple. We will be back.")


def test_blanks_are_filled_and_a_literal_one_stays(page):
    write(page, r"The \[_] was [_] and the staff [_].")
    expect(page.locator("#asked")).to_have_text("To fill the blanks")
    page.locator("#suggestions .suggestion").nth(1).click()
    assert re.fullmatch(r"The \\\[_] was .+ and the staff .+\.", text_of(page))
    assert text_of(page).count("[_]") == 1


def test_emoji_do_not_shift_anything(page):
    text = "👩‍👩‍👧 😀 The food was and the service great 🎉."
    write(page, text)
    wait_for_heat(page)
    assert page.locator("#drawing").inner_text().rstrip("\u200b") == text
    at = len("👩‍👩‍👧 😀 The food was ".encode("utf-16-le")) // 2
    select(page, at, at)
    expect(page.locator("#asked-tip")).to_contain_text("Something missing here")
    word = page.locator("#suggestions .words").first.inner_text()
    page.locator("#suggestions .suggestion").first.click()
    expect_text(page, f"👩‍👩‍👧 😀 The food was {word} and the service great 🎉.")
    start = text_of(page).index("service")
    start = len(text_of(page)[:start].encode("utf-16-le")) // 2
    select(page, start, start + 7)
    expect(page.locator("#asked")).to_have_text("Instead of “service”")
    page.locator("#suggestions .suggestion", has_not_text="delete").first.click()
    assert text_of(page).startswith(f"👩‍👩‍👧 😀 The food was {word} and the ")
    assert text_of(page).endswith(" great 🎉.")
    trace = json.loads(exported(page, "JSON"))
    expect_consistent(trace)


def test_the_keyboard_is_enough(page):
    page.keyboard.press("Tab")
    for _ in range(8):
        if page.evaluate("() => document.activeElement.id") == "text":
            break
        page.keyboard.press("Tab")
    page.keyboard.type(LACKING)
    wait_for_heat(page)
    page.keyboard.press("Home")
    page.keyboard.press("F8")
    expect(page.locator("#asked")).to_have_text("Between “was” and “and”")
    page.locator("#suggestions .suggestion").first.wait_for()
    page.keyboard.press("Control+Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    chosen = page.locator('[aria-pressed="true"] .words').inner_text()
    expect_text(page, f"The food was {chosen} and the service great.")
    page.keyboard.press("Enter")
    expect_text(page, LACKING)
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.id") == "text"
    page.keyboard.press("Control+Shift+z")
    expect_text(page, f"The food was {chosen} and the service great.")
    page.keyboard.press("Control+z")
    expect_text(page, LACKING)


def focused(page):
    return page.evaluate("() => document.activeElement.id || document.activeElement.className")


def test_the_keys_lead_to_the_suggestions_whatever_panel_is_open(page):
    write(page, LACKING)
    wait_for_heat(page)
    page.get_by_role("tab", name="Style").click()
    page.keyboard.press("F8")
    expect(page.locator("#panel-suggest")).to_be_visible()
    page.locator("#suggestions .suggestion").first.wait_for()
    page.get_by_role("tab", name="History").click()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#panel-suggest")).to_be_visible()
    assert "suggestion" in focused(page)


def test_the_focus_stays_in_the_style_panel(page):
    write(page, RUDE)
    page.get_by_role("tab", name="Style").click()
    page.get_by_role("button", name="Revise").click()
    expect(page.locator("#outcome")).to_contain_text("The whole text")
    page.locator("#edits .accept").first.focus()
    for step in ("undo", "redo"):  # the cards are drawn anew
        page.evaluate("(step) => document.getElementById(step).click()", step)
    assert focused(page) == "accept"
    page.keyboard.press("Enter")
    assert focused(page) == "reject"
    page.keyboard.press("Enter")
    assert focused(page) == "run"
    page.locator("#kept-words button").first.focus()
    for _ in range(page.locator("#kept-words button").count()):
        page.keyboard.press("Enter")
        assert focused(page) in ("kept-word", "run")
    assert focused(page) == "run"


def test_examples_are_chosen_with_the_keyboard(page):
    page.locator("#examples summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert text_of(page) == ""
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Your text")).to_have_value(re.compile("purple"))
    expect(page.locator("#example-list")).to_be_hidden()
    assert focused(page) == "text"


def test_a_browser_that_keeps_nothing_is_enough(visit, server):
    page = visit("about:blank")
    page.add_init_script(
        """for (const kind of ["localStorage", "sessionStorage"])
             Object.defineProperty(window, kind, { get() { throw new DOMException("blocked", "SecurityError"); } });"""
    )
    page.goto(server)
    write(page, LACKING)
    wait_for_heat(page)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_every_control_has_a_name(page):
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea")]
             .filter((control) => !(control.ariaLabel || control.labels?.length ||
                                    control.localName === "button" && control.textContent.trim()))
             .map((control) => control.id)"""
    )
    assert nameless == []


@pytest.mark.parametrize("text", [RUDE + " " + LACKING * 5, "supercalifragilistic" * 20])
def test_nothing_sticks_out_on_a_phone(visit, server, text):
    page = visit(server, **PHONE)
    write(page, text)
    wait_for_heat(page)
    for tab in ("Suggestions", "Style", "History"):
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    # The letters of the textarea lie on those of the drawing: both need the same height.
    heights = page.evaluate("() => ['text', 'drawing'].map((id) => document.getElementById(id).scrollHeight)")
    assert heights[0] == heights[1]


def test_a_link_carries_text_and_settings(visit, server):
    page = visit(server)
    write(page, "Schöne 😀 [_]\nNew line & more #1")
    page.get_by_role("tab", name="Style").click()
    page.get_by_label("Make it").select_option("negative")
    page.get_by_label("Steps a sentence").fill("7")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status").first).to_contain_text("link")
    other = visit(page.url)
    expect_text(other, "Schöne 😀 [_]\nNew line & more #1")
    other.get_by_role("tab", name="Style").click()
    expect(other.get_by_label("Make it")).to_have_value("negative")
    expect(other.get_by_label("Steps a sentence")).to_have_value("7")


def test_a_link_that_is_opened_here_is_read_with_its_own_settings(visit, server):
    page = visit(server)
    write(page, LACKING)
    wait_for_heat(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status").first).to_contain_text("link")
    page.get_by_label("As in").select_option("negative")
    wait_for_heat(page)
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "locate" in request.url else None)
    assert "voice=&" in page.url
    page.evaluate("(link) => { location.hash = ''; location.hash = link.split('#')[1]; }", page.url)
    expect(page.get_by_label("As in")).to_have_value("")
    wait_for_heat(page)
    assert asked
    assert not asked[-1].get("style")


def test_suggestions_that_are_refused_are_not_waited_for(visit, server):
    page = visit(server)
    visit.complaints.clear()
    write(page, "the food was [_] . " * 21)
    expect(page.get_by_role("status").first).to_contain_text("blanks")
    expect(page.get_by_role("heading", name="No suggestions")).to_be_visible()
    expect(page.locator("#suggestions")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#too-long-to-revise")).to_have_text("")
    visit.complaints[:] = [told for told in visit.complaints if "422" not in told]


def test_a_link_from_a_server_with_other_models_opens_its_text(visit, server):
    page = visit(server)
    write(page, "The food was great.")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status").first).to_contain_text("link")
    link = re.sub(r"model=[^&]*", "model=unheard-of", page.url)
    assert "unheard-of" in link
    other = visit(link)
    expect_text(other, "The food was great.")
    wait_for_heat(other)


def test_a_caret_within_a_word_with_stops_asks_about_the_word(page):
    write(page, "The food at yelp.com was great.")
    wait_for_heat(page)
    for at in (14, 16, 17, 19):
        select(page, at, at)
        expect(page.locator("#asked")).to_have_text("Instead of “yelp.com”")


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        ("a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        ("a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"),
        ("a", "", "@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"),
    ],
)
def test_a_diff_knows_line_ends(page, before, after, diff):
    made = page.evaluate(
        """async ([before, after]) => {
            const { asDiff } = await import("/page/export.js");
            return asDiff({ sinceOpened: [{ text: before }], text: after });
        }""",
        [before, after],
    )
    assert made == f"--- before.txt\n+++ after.txt\n{diff}"


def test_markup_in_a_text_stays_text(page):
    write(page, "<img src=x onerror=alert(1)> <b>was</b> great.")
    wait_for_heat(page)
    page.get_by_role("tab", name="History").click()
    assert page.locator("main img, main b").count() == 0


def test_light_and_dark(visit, server):
    page = visit(server, color_scheme="dark")
    dark = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    light = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    assert dark != light
    page.reload()
    assert page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor") == light


def test_a_text_that_is_too_long_is_told_and_not_sent(page):
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    write(page, "too long " * 340)
    expect(page.locator("#status")).to_contain_text("64 characters too long")
    page.get_by_role("tab", name="Style").click()
    expect(page.get_by_role("button", name="Revise")).to_be_disabled()
    assert not asked
    write(page, LACKING)
    wait_for_heat(page)
    expect(page.locator("#status")).to_have_text("")


def test_a_text_may_be_too_long_to_be_revised_and_not_to_be_read(page):
    write(page, "The food was and the staff slow. " * 20)
    wait_for_heat(page)
    page.get_by_role("tab", name="Style").click()
    expect(page.get_by_text("To be revised, the text is 60 characters too long.")).to_be_visible()
    expect(page.get_by_role("button", name="Revise")).to_be_disabled()
    write(page, LACKING)
    expect(page.locator("#run")).to_be_enabled()  # whichever panel the caret has opened meanwhile


def test_a_busy_server_is_asked_again_when_it_wishes(visit, page):
    refusals = []

    def refuse_once(route):
        if refusals:
            return route.continue_()
        refusals.append(route)
        body = {"error": "The server is busy.", "error_type": "busy", "field": None}
        return route.fulfill(status=429, headers={"Retry-After": "1"}, json=body)

    page.route("**/v1/locate", refuse_once)
    write(page, LACKING)
    expect(page.locator("#status")).to_have_text("The server is busy. Asking again in 1 s.")
    wait_for_heat(page)
    expect(page.locator("#status")).to_have_text("")
    forgive(visit, "429")


def test_a_slow_server_is_told_and_what_is_stale_is_called_off(page):
    stalled, called_off = [], []
    page.route("**/v1/locate", lambda route: route.continue_() if stalled else stalled.append(route))
    page.on("requestfailed", lambda request: called_off.append(request.failure))
    write(page, "An older text.")
    expect(page.locator("#status")).to_contain_text("Still computing")
    write(page, LACKING)
    wait_for_heat(page)
    expect(page.locator("#status")).to_have_text("")
    assert called_off == ["net::ERR_ABORTED"]
    assert page.locator("#drawing").inner_text().rstrip("\u200b") == LACKING


def test_a_dead_server_is_told_and_work_goes_on_when_it_is_back(visit):
    port = free_port()
    with running("yelp", port) as (address, process):
        page = visit(address)
        write(page, LACKING)
        wait_for_heat(page)
        process.kill()
        process.wait()
        write(page, RUDE)
        expect(page.locator("#status")).to_contain_text("The server does not answer. Your text is safe")
        page.get_by_role("tab", name="Style").click()
        page.get_by_role("button", name="Revise").click()
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        expect_text(page, RUDE)
    with running("yelp", port):
        expect(page.locator("#outcome")).to_contain_text("The whole text")
        expect(page.locator("#status")).to_have_text("")
        page.close()  # or it may ask this server, too, when it is gone
    forgive(visit, "ERR_CONNECTION_REFUSED", "ERR_SOCKET_NOT_CONNECTED")


@pytest.mark.skipif("news" not in bundled_models(), reason="the model news is not bundled")
def test_as_it_comes_one_model_suggests_and_the_other_restyles(visit):
    with running(None, free_port()) as (address, _):
        page = visit(address)
        asked = []
        page.on("request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None)
        expect(page.locator("#model")).to_have_value("news")
        write(page, RUDE)
        wait_for_heat(page)
        revise(page)
        assert {body["model"] for body in asked} == {"news", "yelp"}
        assert text_of(page) != RUDE
        page.get_by_role("tab", name="Suggestions").click()
        page.locator("#model").select_option("yelp")
        write(page, LACKING)
        wait_for_heat(page)
        assert asked[-1]["model"] == "yelp"


def test_whoever_writes_during_a_run_takes_the_pen(page):
    write(page, RUDE)
    page.get_by_role("tab", name="Style").click()
    page.get_by_role("button", name="Revise").click()
    write(page, "I write on.")
    page.get_by_role("tab", name="Style").click()
    expect(page.get_by_role("button", name="Revise")).to_be_visible()
    expect_text(page, "I write on.")


def test_one_of_several_models_is_chosen(visit, editor):
    asked = []
    with serving(create_app({"one": editor, "two": editor})) as address:
        page = visit(address)
        page.on("request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None)
        page.get_by_role("tabpanel").get_by_label("Model").select_option("two")
        page.get_by_label("As in").select_option("negative")
        write(page, "the food was great .")
        wait_for_heat(page)
    assert {(body["model"], body["style"]) for body in asked} == {("two", "negative")}


def test_a_key_is_asked_for_where_one_is_wanted(visit, editor):
    with serving(create_app({"toy": editor}, api_key="open sesame")) as address:
        page = visit(address)
        page.get_by_label("This server wants a key").fill("open sesame")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_label("This server wants a key")).to_be_hidden()
        write(page, "the food was great .")
        wait_for_heat(page)
        page.evaluate("() => sessionStorage.setItem('xl-editor-key', 'of another server')")
        page.get_by_role("tab", name="Style").click()
        page.get_by_role("button", name="Revise").click()
        expect(page.get_by_label("This server wants a key")).to_be_visible()
    forgive(visit, "401")


def forgive(visit, expected, *possible):
    """The browser notes every failed request; those that the test is about are no complaint."""
    assert any(expected in complaint for complaint in visit.complaints)
    forgiven = (expected, *possible)
    visit.complaints[:] = [said for said in visit.complaints if not any(part in said for part in forgiven)]


# --- the modules that know no page ---------------------------------------------------------------------------


def in_module(page, module, body, *arguments):
    return page.evaluate(
        f"async (given) => {{ const m = await import('/page/{module}.js'); return ({body})(m, ...given); }}",
        list(arguments),
    )


def test_rejecting_an_edit_leaves_the_others_and_takes_what_was_made_on_it(page):
    texts = ["it was bad and slow", "it was good and slow", "it was good and quick", "it was very nice and quick"]
    left = page.evaluate(
        """async (texts) => {
          const { changeBetween } = await import('/page/text.js');
          const { follow, newEdit, reject } = await import('/page/review.js');
          let edits = [];
          for (let i = 1; i < texts.length; i += 1) {
            const change = changeBetween(texts[i - 1], texts[i]);
            edits = [...follow(edits, change, i), newEdit(i, {}, change)];
          }
          const typed = 'Well, ' + texts.at(-1);
          edits = follow(edits, changeBetween(texts.at(-1), typed));
          return [1, 2, 3].map((id) => reject(typed, edits, id).text);
        }""",
        texts,
    )
    assert left == ["Well, it was bad and quick", "Well, it was very nice and slow", "Well, it was good and quick"]


def test_what_was_rewritten_by_hand_cannot_be_rejected(page):
    assert not page.evaluate(
        """async () => {
          const { changeBetween } = await import('/page/text.js');
          const { canReject, follow, newEdit } = await import('/page/review.js');
          let edits = [newEdit(1, {}, changeBetween('it was bad', 'it was very good'))];
          edits = follow(edits, changeBetween('it was very good', 'it was very fine'));
          return canReject(edits, edits[0]);
        }"""
    )


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("it was bad .", "it was bland .", [7, "bad", "bland"]),
        ("a b", "a x b", [2, "", "x "]),
        ("a x b", "a b", [2, "x ", ""]),
        ("the the", "the", [3, " the", ""]),
        ("", "new", [0, "", "new"]),
        ("a 😀 b", "a 😁 b", [2, "😀", "😁"]),
    ],
)
def test_a_change_is_of_whole_words(page, before, after, change):
    found = in_module(page, "text", "(m, a, b) => Object.values(m.changeBetween(a, b))", before, after)
    assert found == change


def test_a_change_that_the_server_tells_is_read_in_code_points(page):
    change = {"start": 3, "end": 6, "replacement": "b🙂"}
    found = in_module(
        page, "text", "(m, text, change) => m.withChange(text, m.changeFrom(text, change))", "🙂🙂 abc d", change
    )
    assert found == "🙂🙂 b🙂 d"


# --- the screenshots of the docs -----------------------------------------------------------------------------


def take_screenshots(directory):
    desktop = {"viewport": {"width": 1200, "height": 640}}
    with running("yelp", free_port()) as (address, _), playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def take(name, show, **settings):
            page = browser.new_page(reduced_motion="reduce", **settings)
            page.goto(address)
            show(page)
            page.wait_for_timeout(1500)
            page.screenshot(path=directory / f"page-{name}.png")

        take("desktop", show_suggestions, **desktop)
        take("phone", show_suggestions, **{**PHONE, "device_scale_factor": 1.5})
        take("dark", show_review, **desktop, color_scheme="dark")


def show_suggestions(page):
    write(page, "The food was and the service great. My dog is purple seven. We will definitely come back!")
    wait_for_heat(page)
    click_gap(page, "99.8")
    page.locator("#suggestions .suggestion").first.wait_for()


def show_review(page):
    write(page, "The waitress was rude and slow. The pizza was cold, and I will not come back!")
    revise(page)
    page.get_by_role("button", name="Accept “").first.click()


if __name__ == "__main__":
    take_screenshots(Path(__file__).parents[2] / "docs" / "images")
