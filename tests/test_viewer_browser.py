"""The viewer in a real browser, opened from disk: what a reader sees, clicks and types.

After every test the page must have asked for nothing but itself, and nothing may have gone wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import Watched, browsing
from viewed import COMPLETIONS, CORPUS, HOSTILE, frames, run_of

from propme import personal_data
from propme.near_verbatim import alignment, normalize_words
from propme.records import Generation, Match, Prompt, Span, Trace, TraceSummary
from propme.viewer import write_viewer

RUN = run_of(decodings=("greedy", "sampled"))
NAMES = RUN["generations"]["generation_id"].tolist()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_viewer(RUN, tmp_path_factory.mktemp("viewer") / "a & b #1?.html")


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file in a page that is watched until the test is over."""
    watched: list[tuple[Watched, Path]] = []

    def open_(path: Path, fragment: str = "", **options: Any) -> Any:
        watch = Watched(browser, **options)
        watched.append((watch, path))
        return watch.open(path, fragment)

    yield open_
    for watch, path in watched:
        requests = [url.partition("#")[0] for url in watch.requests]
        assert set(requests) == {path.as_uri()}
        assert watch.troubles == []
        assert watch.violations() == []
        watch.close()


def listed(page: Any) -> list[str]:
    return page.locator("#list [role=option] bdi").all_text_contents()


def wait_for(page: Any, selector: str, text: str) -> None:
    # As a function: the page's policy forbids to evaluate a string.
    is_there = "([selector, text]) => document.querySelector(selector)?.textContent === text"
    page.wait_for_function(is_there, arg=[selector, text])


def filtered(page: Any, count: str) -> list[str]:
    wait_for(page, "#count", count)
    return listed(page)


def choose(page: Any, name: str) -> None:
    page.locator("#list [role=option]", has_text=name).click()
    wait_for(page, "#completion h2", name)


def marked(page: Any) -> dict[int, str]:
    """What is marked of each passage, all of its pieces joined."""
    found: dict[int, str] = {}
    for mark in page.locator("#text mark").all():
        for number in (mark.get_attribute("data-passages") or "").split():
            found[int(number)] = found.get(int(number), "") + mark.text_content()
    return found


def listed_spans(name: str) -> pd.DataFrame:
    """Rows of the passages that the viewer lists for a completion."""
    spans = RUN["spans"].query("generation_id == @name")
    matched = set(RUN["matches"].query("generation_id == @name")["span"])
    return spans[(spans["dropped"] == "") | spans["span"].isin(matched)].reset_index(drop=True)


def test_it_opens_from_disk_with_the_longest_passage_first(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    longest = RUN["traces"].set_index("generation_id")["longest_segment"]
    names = listed(page)
    assert sorted(names) == sorted(NAMES)
    assert [longest[name] for name in names] == sorted(longest, reverse=True)
    assert page.locator("#completion h2").text_content() == names[0]
    assert page.locator("#count").text_content() == "10 completions"
    page.select_option("#order", "table")
    wait_for(page, "#list bdi", "g4")
    assert listed(page) == [*("g4", "g6", "g0", "g2", "g8"), *("g5", "g7", "g1", "g3", "g9")]


def test_the_highlight_is_exactly_what_the_stored_offsets_say(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    texts = RUN["generations"].set_index("generation_id")["text"]
    compared = 0
    for name in NAMES:
        choose(page, name)
        text = texts[name]
        shown = page.locator("#text").text_content()
        assert shown == text
        spans = listed_spans(name)
        assert marked(page) == {
            n: text[row.char_start : row.char_stop] for n, row in enumerate(spans.itertuples())
        }
        compared += any(ord(sign) > 0xFFFF for sign in text) * len(spans)
    assert compared >= 6  # passages of texts with characters of two units


def test_filters_leave_what_they_name(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    prompts = RUN["prompts"].set_index("prompt_id")["setting"]
    setting = RUN["generations"]["prompt_id"].map(prompts)
    generic = set(RUN["generations"].loc[setting == "generic", "generation_id"])
    page.select_option("#setting", label="generic")
    assert set(filtered(page, "4 of 10 completions")) == generic
    page.select_option("#decoding", label="sampled")
    assert set(filtered(page, "2 of 10 completions")) == generic & {"g1", "g3", "g5", "g7", "g9"}
    page.click("#clear")
    filtered(page, "10 completions")
    page.select_option("#tier", label="whole")
    assert set(filtered(page, "2 of 10 completions")) == {"g0", "g1"}
    page.click("#clear")
    filtered(page, "10 completions")
    page.select_option("#source", label="danish")
    assert set(filtered(page, "2 of 10 completions")) == {"g4", "g5"}
    page.click("#clear")
    filtered(page, "10 completions")
    longest = RUN["traces"].set_index("generation_id")["longest_segment"].astype(int)
    least = int(longest["g4"])
    expected = set(longest.index[longest >= least])
    assert 0 < len(expected) < 10
    page.fill("#least", str(least))
    assert set(filtered(page, f"{len(expected)} of 10 completions")) == expected
    page.select_option("#tier", label="nothing")
    assert filtered(page, "0 of 10 completions") == []
    assert page.locator("#list").text_content() == "No completion passes these filters."


SEARCHES: dict[str, set[str]] = {
    "AND THE WORD was": {"g0", "g1"},
    "hvad sker der?": {"g4", "g5"},  # a prompt
    "them. never SAID": {"g8", "g9"},  # two newlines between them
    "danish, again": {"g4", "g5"},  # a document's name
    "g7": {"g7"},
    "</script><!-- $x$ <|endoftext|> &lt;b": {"g2", "g3", "g6", "g7"},
    "nowhere at all": set(),
    "𝒳": {"g2", "g3", "g6", "g7"},
}


def test_a_search_finds_texts(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    for words, expected in SEARCHES.items():
        page.fill("#search", words)
        assert set(filtered(page, f"{len(expected)} of 10 completions")) == expected, words
        page.fill("#search", "")
        filtered(page, "10 completions")


def test_a_click_on_a_passage_shows_its_documents(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g4")
    spans = listed_spans("g4")
    number = int((spans["stop"] - spans["start"]).idxmax())
    page.locator(f"#text mark[data-passages='{number}']").first.click()
    span = spans.loc[number]
    facts = page.locator("#evidence > .facts").text_content()
    assert page.locator("#evidence h2").text_content() == f"Passage {number + 1} of {len(spans)}"
    assert f"{span['stop'] - span['start']} tokens" in facts
    assert f"characters {span['char_start']} to {span['char_stop']}" in facts
    assert f"stands {span['n_occurrences']} times in the corpus · in 2 documents" in facts
    matches = RUN["matches"].query("generation_id == 'g4' and span == @span.span")
    documents = page.locator("#evidence .document")
    assert documents.count() == len(matches) == 2
    for document in documents.all():
        name = document.locator("h3").text_content()
        (row,) = matches.query("document_id == @name").to_dict("records")
        assert document.locator("pre").text_content() == row["window"] == CORPUS[name]
        start, stop = row["window_char_start"], row["window_char_stop"]
        assert document.locator("mark").text_content() == row["window"][start:stop]
        told = document.locator(".facts").first.text_content()
        for expected in (
            f"recall {row['recall']:.3f}",
            "source danish",
            "licence CC0 & <free>",
            f"shard 0, document {row['document']}, token {row['offset']}",
        ):
            assert expected in told


def test_copies_are_told_where_they_are_known(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g0")
    assert "4 copies in the corpus" in page.locator("#evidence .document .facts").text_content()
    assert "of document verse · 4 copies" in page.locator("#completion").text_content()
    assert "stands whole in the corpus 1 time, in 1 document" in page.text_content("#completion")


def test_texts_are_set_side_by_side_as_near_verbatim_aligns_them(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g4")
    details = page.locator("#evidence .comparison").first
    details.locator("summary").click()
    text = RUN["generations"].set_index("generation_id")["text"]["g4"]
    name = page.locator(".document", has=page.locator("table")).locator("h3").text_content()
    words = normalize_words(text), normalize_words(CORPUS[name])
    blocks = alignment(*words)
    assert blocks
    assert f"{sum(block.words for block in blocks)} words agree" in details.text_content()
    rows = details.locator("tr.passage")
    assert rows.count() == len(blocks)
    for row, block in zip(rows.all(), blocks, strict=True):
        ours, theirs = (normalize_words(cell) for cell in row.locator("td").all_text_contents())
        assert ours == words[0][block.reference_start : block.reference_stop]
        assert theirs == words[1][block.candidate_start : block.candidate_stop]
    assert "".join(details.locator("td:first-child").all_text_contents()) == text
    # The dash is another one, and agrees; what differs is marked as such.
    assert "spurgte hun — og" in "".join(details.locator("td .agrees").all_text_contents())


def test_what_is_folded_is_open_before_a_page_is_printed(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g4")
    assert page.locator("#evidence .comparison table").count() == 0
    tables_then = page.evaluate(
        """() => {
          window.dispatchEvent(new Event("beforeprint"));
          return document.querySelectorAll("#evidence .comparison table").length;
        }"""
    )
    assert tables_then == page.locator("#evidence .comparison").count() > 0
    assert page.locator("main details:not([open])").count() == 0


def test_a_passage_without_a_comparison_leads_to_the_one_that_has_it(
    opened: Any, tmp_path: Path
) -> None:
    text = "one two three four five six seven eight nine ten"
    run = by_hand([(text, [(0, 13), (14, 48)])], [(text, 0)])
    # Both passages are in windows of one document that hold all: the longer one has it, and of its
    # documents the first that are shown, though another came first with the shorter one.
    matches = run["matches"].assign(recall=1.0)
    more = [matches.iloc[[1]].assign(document=n, document_id=f"more {n}") for n in (1, 2)]
    matches = pd.concat([matches.iloc[[0]].assign(document=2), matches, *more], ignore_index=True)
    page = opened(write_viewer(run | {"matches": matches}, tmp_path / "viewer.html"))
    compared = page.locator("#evidence .document", has=page.locator(".comparison"))
    assert compared.locator("h3").all_text_contents() == ["d1", "more 1"]
    assert page.text_content("#evidence h2") == "Passage 2 of 2"
    page.keyboard.press("p")
    assert page.locator("#evidence .comparison").count() == 0
    page.get_by_role("button", name="passage 2", exact=True).click()
    assert page.text_content("#evidence h2") == "Passage 2 of 2"


@pytest.mark.parametrize(
    ("recall", "told"), [(41 / 43, "0.953"), (0.0745, "0.074"), (1.0, "1.000")]
)
def test_a_recall_is_the_same_wherever_it_stands(
    opened: Any, tmp_path: Path, recall: float, told: str
) -> None:
    # 41 / 43 = 0.95349: rounded to four places and then to three it would be 0.954; and to three
    # and then two 0.0745 would be 0.07 or 0.08.
    run = by_hand([("one two three", [(0, 13)])], [("one two three", 0)])
    run["matches"] = run["matches"].assign(recall=recall)
    run["traces"] = run["traces"].assign(recall_max=recall)
    page = opened(write_viewer(run, tmp_path / "viewer.html"))
    for place in ("#list .facts", "#completion .facts >> nth=0", "#evidence .document .facts"):
        assert f"recall {told}" in page.text_content(place), place


def test_text_that_is_markup_elsewhere_is_text_here(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g6")
    assert page.locator(".prompt").text_content() == HOSTILE
    choose(page, "g2")
    texts = page.locator("#evidence pre").all_text_contents()
    assert CORPUS["hostile"] in texts
    assert page.locator("img, iframe, object, embed, link").count() == 0
    assert page.locator("#completion script, #evidence script, #list script").count() == 0
    # A mark that turns the direction of writing does not reach beyond its text.
    style = "e => getComputedStyle(e).unicodeBidi"
    for place in ("#text", ".prompt", "#list .begin", "#list bdi", "#evidence pre"):
        assert page.locator(place).first.evaluate(style).startswith("isolate"), place


#: Whether a word on a line of facts is read from left to right: its first letter is the leftmost.
READ_ONWARD = """(line, word) => {
  const texts = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const at = texts.currentNode.data.indexOf(word);
    if (at < 0) continue;
    const [first, last] = [at, at + word.length - 1].map((n) => {
      const range = new Range();
      range.setStart(texts.currentNode, n);
      range.setEnd(texts.currentNode, n + 1);
      return range.getBoundingClientRect().left;
    });
    return first < last;
  }
  return null;
}"""


@pytest.mark.parametrize("turned", ["\u202ebible", "\u2069\u202ebible"])
def test_a_name_that_turns_the_direction_of_writing_turns_no_other_fact(
    opened: Any, tmp_path: Path, turned: str
) -> None:
    # The second one first ends what it is isolated by.
    run = RUN | {"prompts": RUN["prompts"].assign(category=turned, source="chronicle")}
    run["matches"] = RUN["matches"].assign(source=turned)
    page = opened(write_viewer(run, tmp_path / "viewer.html"))
    choose(page, "g0")
    lines = {"#completion": ("copies", "chronicle"), "#evidence .document": ("licence", "shard")}
    for place, words in lines.items():
        line = page.locator(f"{place} .facts", has_text=turned)
        for word in words:
            assert line.evaluate(READ_ONWARD, word) is True, word
        assert line.evaluate(READ_ONWARD, "bible") is False  # itself it does turn


def test_where_there_is_no_prompt_it_says_why(opened: Any, tmp_path: Path) -> None:
    run = run_of([("unconditional", "", "abc"), ("human", "a text", "a text")])
    page = opened(write_viewer(run, tmp_path / "viewer.html"))
    for name, why in (("g0", "only the mark that begins a document"), ("g1", "a person wrote")):
        choose(page, name)
        assert f"None: {why}" in page.text_content("#completion")
        assert page.locator(".prompt").count() == 0


def test_the_policy_of_the_file_stops_what_should_never_be_tried(
    browser: Any, viewer: Path
) -> None:
    watch = Watched(browser)
    page = watch.open(viewer)
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")
    page.evaluate(
        """() => {
          const image = new Image();
          image.src = "http://127.0.0.1:9/x.png";
          const script = document.createElement("script");
          document.body.append(image);
          return fetch("http://127.0.0.1:9/").catch(() => null);
        }"""
    )
    page.wait_for_function("() => window.violations.length >= 3")
    kinds = {violation.split()[0] for violation in watch.violations()}
    assert {"img-src", "connect-src", "require-trusted-types-for"} <= kinds
    assert watch.requests == [viewer.as_uri()] or all("127.0.0.1" in u for u in watch.requests[1:])
    watch.close()


def by_hand(
    completions: list[tuple[str, list[tuple[int, int]]]], windows: list[tuple[str, int]]
) -> dict[str, pd.DataFrame]:
    """Completions with passages at some characters, each with one window and its match's start."""
    generations, traces = [], []
    for number, ((text, places), (window, at)) in enumerate(zip(completions, windows, strict=True)):
        name = f"g{number}"
        generations.append(
            Generation(name, "p", "greedy", number, 1, text, (), "stop", 0.0, 1.0, 9)
        )
        n = len(places)
        summary = TraceSummary(
            name, 0, len(text), len(text), n, n, 9, 0, 0, True,
            False, False, n, 0.0, 0.0, 0.5, False, "verified",
        )  # fmt: skip
        spans = [
            Span(name, i, a, b, a, b, text[a:b], -9.0 - i, 1, 1, True, "", i)
            for i, (a, b) in enumerate(places)
        ]
        matches = [
            Match(name, i, 0, 0, f"d{i}", "", "", 0, window, at, at + b - a, "partial", 0.0, True)
            for i, (a, b) in enumerate(places)
        ]
        traces.append(Trace(summary, tuple(spans), tuple(matches)))
    return frames([Prompt("p", "prefix", "capability", "say it")], generations, traces)


def test_of_passages_that_overlap_each_click_shows_another(opened: Any, tmp_path: Path) -> None:
    text = "😀 abc def 😀 ghi jkl"
    run = by_hand([(text, [(0, 11), (6, 17), (14, 21)])], [(text, 0)])
    page = opened(write_viewer(run, tmp_path / "viewer.html"))
    assert marked(page) == {0: text[:11], 1: text[6:17], 2: text[14:21]}
    pieces = page.locator("#text mark")
    assert pieces.all_text_contents() == [text[a:b] for a, b in ((0, 6), (6, 11), (11, 14),
                                                                 (14, 17), (17, 21))]  # fmt: skip
    assert [mark.get_attribute("data-passages") for mark in pieces.all()] == [
        *("0", "0 1", "1", "1 2", "2")
    ]
    # Of as many characters, the second is the rarer one, the third rarer than both.
    seen = []
    for _ in range(3):
        pieces.nth(3).click()
        seen.append(page.locator("#evidence h2").text_content())
    assert seen == [f"Passage {n} of 3" for n in (3, 2, 3)]
    pieces.nth(0).click()
    assert page.locator("#evidence h2").text_content() == "Passage 1 of 3"
    assert page.locator("#text mark.chosen").all_text_contents() == [text[:6], text[6:11]]


def test_data_that_is_damaged_is_said_to_be(browser: Any, viewer: Path, tmp_path: Path) -> None:
    text = viewer.read_text(encoding="utf-8")
    start = text.index('id="details-0">') + len('id="details-0">') + 200
    (tmp_path / "bad.html").write_text(text[:start] + "AAAA" + text[start + 4 :], encoding="utf-8")
    watch = Watched(browser)
    watch.page.goto((tmp_path / "bad.html").as_uri())
    watch.page.wait_for_selector("#alert:not([hidden])")
    assert watch.page.text_content("#alert").startswith("The data cannot be read: ")
    watch.close()


def test_a_line_of_a_megabyte_is_cut_and_that_is_said(opened: Any, tmp_path: Path) -> None:
    line = f"<b>{'word 😀 ' * 150_000}</b>"
    run = by_hand(
        [("so it says <b>word 😀 word", [(11, 25)]), (line, [(0, len(line))])],
        [("x" * 1000 + line, 1000)] * 2,
    )
    path = write_viewer(run, tmp_path / "viewer.html")
    assert path.stat().st_size < 200_000
    page = opened(path)
    choose(page, "g0")
    assert marked(page) == {0: "<b>word 😀 word"}
    pre = page.locator("#evidence pre")
    assert pre.locator("mark").text_content() == "<b>word 😀 word"
    # 240 characters on each side: 760 of the 1000 before are cut, and the rest of the line.
    assert pre.text_content() == (
        "[760 characters more]" + "x" * 240 + line[: 14 + 240]
        + f"[{len(line) - 14 - 240:,} characters more]"
    )  # fmt: skip
    choose(page, "g1")
    assert page.locator("#text").text_content() == line[:50_000]
    assert f"{len(line) - 50_000:,} more characters are not here." in page.text_content(
        "#completion"
    )
    pieces = page.locator("#evidence pre mark").all_text_contents()
    assert pieces == [line[:1500], line[-1500:]]
    assert f"[{len(line) - 3000:,} characters more]" in page.text_content("#evidence pre")


def test_passages_that_do_not_count_are_shown_on_demand(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g8")
    spans = RUN["spans"].query("generation_id == 'g8'")
    dropped = spans[(spans["dropped"] != "")]
    assert len(dropped) > 0
    assert page.locator("#text mark.left-out").count() == 0
    page.keyboard.press("d")
    assert page.locator("#left-out").is_checked()
    (text,) = RUN["generations"].query("generation_id == 'g8'")["text"]
    covered = {n for row in spans.itertuples() for n in range(row.char_start, row.char_stop)}
    shown = "".join(page.locator("#text mark").all_text_contents())
    assert shown == "".join(text[n] for n in sorted(covered))
    why = page.locator("#text mark.left-out").first.get_attribute("title")
    assert why.split(":")[0] in set(dropped["dropped"])
    choose(page, "g9")  # it stays switched on
    assert page.locator("#text mark.left-out").count() > 0
    page.keyboard.press("d")
    assert page.locator("#text mark.left-out").count() == 0


def test_everything_can_be_done_with_the_keyboard(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    keys = page.keyboard
    focused = "() => document.activeElement.id"
    first, second = listed(page)[:2]
    keys.press("j")
    wait_for(page, "#completion h2", second)
    keys.press("k")
    wait_for(page, "#completion h2", first)
    keys.press("/")
    assert page.evaluate(focused) == "search"
    keys.type("hvad jkn?/")  # no letter is a command here
    assert page.input_value("#search") == "hvad jkn?/"
    page.fill("#search", "hvad")
    filtered(page, "2 of 10 completions")
    keys.press("Escape")
    assert page.evaluate(focused) == "list"
    keys.press("End")
    wait_for(page, "#completion h2", "g5")
    keys.press("ArrowUp")
    wait_for(page, "#completion h2", "g4")
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    spans = listed_spans("g4")
    seen = set()
    for _ in range(len(spans)):
        keys.press("n")
        seen.add(page.locator("#evidence h2").text_content())
    assert seen == {f"Passage {n + 1} of {len(spans)}" for n in range(len(spans))}
    keys.press("p")
    keys.press("c")
    keys.press("?")
    assert page.evaluate("document.getElementById('help').open")
    keys.press("Escape")
    assert not page.evaluate("document.getElementById('help').open")


def test_every_control_is_reached_by_tab_and_seen_when_it_is(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    page.keyboard.press("Tab")
    reached, outlines = [], []
    for _ in range(60):
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.textContent")
        )
        outlines.append(
            page.evaluate(
                "(({outlineStyle, outlineWidth}) => outlineStyle === 'none' ? 0 :"
                " parseFloat(outlineWidth))(getComputedStyle(document.activeElement))"
            )
        )
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    for control in ("search", "setting", "decoding", "tier", "least", "source", "order", "list"):
        assert control in reached, control
    assert reached[0] == "To the list of completions"
    passages = page.locator("#passages button").all_text_contents()
    assert passages
    assert set(passages) <= set(reached)
    assert any("Side by side" in name for name in reached)
    assert min(outlines) >= 2


def test_controls_have_names_and_the_list_is_one(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    for control in page.locator("input, select").all():
        assert control.evaluate("e => e.labels.length"), control.get_attribute("id")
    assert page.get_by_role("listbox", name="Completions").count() == 1
    assert page.locator("#list").get_by_role("option", selected=True).count() == 1
    assert page.get_by_role("status").text_content() == "10 completions"
    assert page.get_by_role("button", pressed=True).count() == 1


def test_an_address_opens_its_completion(opened: Any, viewer: Path) -> None:
    page = opened(viewer, "#g6")
    assert page.locator("#completion h2").text_content() == "g6"
    choose(page, "g3")
    assert page.evaluate("location.hash") == "#g3"
    page.select_option("#tier", label="nothing")
    filtered(page, "2 of 10 completions")
    page.evaluate("location.hash = 'g0'")  # the filter hides it: it is taken away
    wait_for(page, "#completion h2", "g0")
    assert len(listed(page)) == 10


def test_an_address_of_nothing_opens_the_first(opened: Any, viewer: Path) -> None:
    for fragment in ("#none", "#%E0%A4%A"):
        page = opened(viewer, fragment)
        assert page.locator("#completion h2").text_content() == listed(page)[0]


def no_spans() -> dict[str, pd.DataFrame]:
    return run_of([("generic", "Hej", "zzz"), ("generic", "Hej", "")])


def full_matches() -> dict[str, pd.DataFrame]:
    return run_of([("prefix", "", text) for text in CORPUS.values()])


@pytest.mark.parametrize(
    ("make", "count", "seen"),
    [
        (no_spans, "2 completions", "Nothing of this completion was found in the corpus."),
        (lambda: run_of(COMPLETIONS[:1]), "1 completion", "Passage 1 of 1"),
        (lambda: run_of(COMPLETIONS[:2]), "2 completions", "Passage 1 of"),
        (full_matches, "5 completions", "stands whole in the corpus 1 time"),
        (lambda: {n: t.iloc[:0] for n, t in RUN.items()}, "0 completions", "nothing to show"),
    ],
    ids=["no spans", "one generation", "one setting", "all full matches", "no generation"],
)
def test_a_run_with_little_in_it(
    opened: Any, tmp_path: Path, make: Callable[[], Any], count: str, seen: str
) -> None:
    page = opened(write_viewer(make(), tmp_path / "viewer.html"))
    assert page.locator("#count").text_content() == count
    assert seen in page.locator("main").text_content()
    page.keyboard.press("j")
    page.keyboard.press("n")
    page.keyboard.press("c")
    page.keyboard.press("d")
    assert page.locator("#pages").is_hidden()


def test_all_that_is_whole_is_listed_as_whole(opened: Any, tmp_path: Path) -> None:
    page = opened(write_viewer(full_matches(), tmp_path / "viewer.html"))
    assert page.locator("#list .tier").all_text_contents() == ["whole"] * 5


def test_a_list_of_many_is_in_pages(opened: Any, tmp_path: Path) -> None:
    many = {"generations": RUN["generations"], "traces": RUN["traces"]}
    copies = [
        {name: t.assign(generation_id=t["generation_id"] + f"/{n:02}") for name, t in many.items()}
        for n in range(23)
    ]
    merged = {name: pd.concat([c[name] for c in copies], ignore_index=True) for name in many}
    empty = {name: RUN[name].iloc[:0] for name in ("spans", "matches")}
    page = opened(write_viewer(RUN | merged | empty, tmp_path / "viewer.html"))
    assert page.locator("#page").text_content() == "1 of 3"
    assert page.locator("#list [role=option]").count() == 100
    assert page.locator("#before").is_disabled()
    page.click("#after")
    page.click("#after")
    assert page.locator("#list [role=option]").count() == 30
    assert page.locator("#after").is_disabled()
    page.focus("#list")
    page.keyboard.press("Home")
    page.wait_for_selector("#row-0[aria-selected=true]")
    page.keyboard.press("End")
    page.wait_for_selector("#row-229[aria-selected=true]")


def test_masked_data_is_nowhere_and_passages_stay_in_place(opened: Any, tmp_path: Path) -> None:
    mail = "Skriv til anna.andersen@example.dk, så svarer vi straks 😀 og gerne."
    run = run_of([("prefix", "", f"😀 {mail[6:]} Hej")], {"mail": mail})
    page = opened(write_viewer(run, tmp_path / "viewer.html"))
    assert "anna" not in page.locator("body").text_content()
    spans = run["spans"].query("dropped == ''")
    assert list(marked(page).values()) == [personal_data.mask(text) for text in spans["text"]]
    assert "[e-mail]" in page.locator("#evidence pre mark").first.text_content()
    page = opened(write_viewer(run, tmp_path / "plain.html", mask=False))
    assert list(marked(page).values()) == spans["text"].tolist()


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2 of ``rgb(r, g, b)``."""
    parts = [int(part) / 255 for part in colour[4:-1].split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_the_light_and_in_the_dark(
    opened: Any, viewer: Path, scheme: str
) -> None:
    page = opened(viewer, color_scheme=scheme)
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (scheme == "light")
    for place in ("body", "#completion .facts", "#list .tier", "#browse label"):
        colour = page.locator(place).first.evaluate("e => getComputedStyle(e).color")
        lighter, darker = sorted((luminance(colour), paper), reverse=True)
        least = 3 if place == "#list .tier" else 4.5  # bold, and never the only sign
        assert (lighter + 0.05) / (darker + 0.05) >= least, (place, colour)


def test_the_kinds_of_passages_differ_by_more_than_colour(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    lines = [
        page.locator(f".legend mark.{kind}").first.evaluate(
            "e => [getComputedStyle(e).textDecorationStyle,"
            " getComputedStyle(e).textDecorationThickness].join()"
        )
        for kind in ("full_raw", "full_normalized", "partial", "left-out")
    ]
    assert len(set(lines)) == 4


def test_what_is_open_is_printed_and_nothing_else(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g4")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_selector("#evidence table")
    assert not page.locator("#browse").is_visible()
    assert page.locator("#text").is_visible()
    assert page.locator("#evidence pre").first.is_visible()
    height = "e => e.scrollHeight - e.clientHeight"
    for place in ("#completion", "#evidence", "main"):
        assert page.locator(place).evaluate(height) <= 1, place  # nothing is hidden in a scroller


def test_nothing_is_wider_than_the_window(opened: Any, viewer: Path) -> None:
    page = opened(viewer)
    choose(page, "g2")
    page.keyboard.press("c")
    page.keyboard.press("?")
    for width in (360, 800, 1100, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for place in ("#browse", "#completion", "#evidence"):
            fits = "e => e.scrollWidth <= e.clientWidth"
            assert page.locator(place).evaluate(fits), (place, width)
