"use strict";
// The viewer's behaviour. All data is shown by textContent; nothing is fetched, nothing is parsed as
// HTML. Offsets are those of the tables: characters, of which some are two units of a JavaScript string.

(() => {
  const PAGE = 100; // completions in a page of the list
  const FOUND = {
    full_raw: "whole",
    full_normalized: "whole, normalised",
    partial: "part",
    none: "nothing",
    "not traced": "not traced",
  };
  const KINDS = ["", "agrees", "differs", "cut"]; // of pieces in a comparison

  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");
  const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

  /** An element with attributes; what is given as text stays text. */
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  /** A text that is cut by characters (code points), not by units of UTF-16. */
  class Characters {
    constructor(text) {
      this.text = text;
      this.units = null;
      if (/[\ud800-\udfff]/.test(text)) {
        this.units = [0];
        for (const character of text) this.units.push(this.units.at(-1) + character.length);
      }
      this.length = this.units ? this.units.length - 1 : text.length;
    }

    slice(start, stop) {
      if (!this.units) return this.text.slice(start, stop);
      const at = (n) => this.units[Math.min(n, this.length)];
      return this.text.slice(at(start), at(stop));
    }
  }

  // --- data ---------------------------------------------------------------------------------------

  const unpacked = new Map();

  /** A piece of the data, unpacked once. */
  function piece(name) {
    if (!unpacked.has(name)) unpacked.set(name, unpack(name));
    return unpacked.get(name);
  }

  async function unpack(name) {
    const packed = atob(byId(name).textContent);
    const bytes = new Uint8Array(packed.length);
    for (let n = 0; n < packed.length; n++) bytes[n] = packed.charCodeAt(n);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  let index;

  /** What a piece of one kind, texts or details, holds of completion n. */
  async function row(kind, n) {
    const starts = index.starts[kind];
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= n) low = middle;
      else high = middle;
    }
    return (await piece(`${kind}-${low}`))[n - starts[low]];
  }

  let haystacks = null; // one lower-case string a completion, made by the first search

  const folded = (text) => text.toLowerCase().replace(/\s+/g, " ");

  async function readTexts() {
    if (haystacks) return haystacks;
    const made = [];
    for (let p = 0; p < index.starts.texts.length; p++) {
      byId("count").textContent = `Reading texts: ${p + 1} of ${index.starts.texts.length} …`;
      for (const { text, prompt, documents } of await piece(`texts-${p}`)) {
        made.push(folded(`${index.id[made.length]}\n${prompt}\n${text}\n${documents}`));
      }
    }
    haystacks = made;
    return made;
  }

  // --- the list -----------------------------------------------------------------------------------

  const fields = ["search", "setting", "decoding", "tier", "least", "source", "order"];
  let listed = []; // numbers of the completions that pass the filters, in order
  let chosen = -1; // place in `listed` of the one that is open
  let page = 0;
  let filtering = 0; // counts the calls, so that only the last one is shown

  function fillFilters() {
    const choices = {
      setting: index.settings,
      decoding: index.decodings,
      tier: index.found.map((name) => FOUND[name]),
      source: index.sources.map((name) => name || "(none)"),
    };
    for (const [id, names] of Object.entries(choices)) {
      names.forEach((name, n) => byId(id).append(element("option", { value: n }, name)));
    }
    if (index.other_sources) {
      byId("source").append(
        element("option", { disabled: "" }, `${number(index.other_sources)} more: search for them`),
      );
    }
    const [rarest, middle, common] = index.rarity;
    byId("quarters").textContent = index.rarity.length
      ? `(above ${common}, to ${middle}, to ${rarest}, below)`
      : "(no passage was kept)";
  }

  async function filter() {
    const call = ++filtering;
    const value = Object.fromEntries(fields.map((id) => [id, byId(id).value]));
    const words = folded(value.search).trim();
    const texts = words ? await readTexts() : null;
    if (call !== filtering) return;
    const is = (id, numbers) => (value[id] === "" ? null : (n) => numbers[n] === Number(value[id]));
    const tests = [
      is("setting", index.setting),
      is("decoding", index.decoding),
      is("tier", index.tier),
      value.source === "" ? null : (n) => index.source[n].includes(Number(value.source)),
      value.least === "" ? null : (n) => index.longest[n] >= Number(value.least),
      words ? (n) => texts[n].includes(words) : null,
    ].filter(Boolean);
    const open = listed[chosen];
    listed = index.id.map((_, n) => n).filter((n) => tests.every((test) => test(n)));
    const by = index[value.order];
    if (by) listed.sort((a, b) => by[b] - by[a] || a - b);
    byId("count").textContent =
      listed.length === index.id.length
        ? plural(listed.length, "completion")
        : `${number(listed.length)} of ${plural(index.id.length, "completion")}`;
    chosen = listed.indexOf(open);
    page = Math.max(0, Math.floor(chosen / PAGE));
    showList();
  }

  function showList() {
    const list = byId("list");
    list.replaceChildren(
      ...listed.slice(page * PAGE, (page + 1) * PAGE).map((n, at) => option(n, page * PAGE + at)),
    );
    if (!listed.length) {
      const why = index.id.length ? "No completion passes these filters." : "The run has none.";
      list.append(element("li", { class: "empty", role: "presentation" }, why));
    }
    const pages = Math.max(1, Math.ceil(listed.length / PAGE));
    byId("pages").hidden = pages === 1;
    byId("page").textContent = `${page + 1} of ${number(pages)}`;
    byId("before").disabled = page === 0;
    byId("after").disabled = page === pages - 1;
    markChosen();
  }

  function option(n, place) {
    const found = index.found[index.tier[n]];
    const longest = index.longest[n];
    return element(
      "li",
      { role: "option", id: `row-${place}`, class: found.replace(" ", "-"), "data-place": place },
      element("span", { class: "begin", dir: "auto" }, index.begin[n] || "(empty)"),
      element(
        "span",
        { class: "facts" },
        element("span", { class: `tier ${found.replace(" ", "-")}` }, FOUND[found]),
        longest ? ` longest ${plural(longest, "token")}, recall ${index.recall[n].toFixed(3)}` : "",
        element("br"),
        element("bdi", {}, index.id[n]),
      ),
    );
  }

  function markChosen() {
    for (const other of byId("list").querySelectorAll("[aria-selected]")) {
      other.removeAttribute("aria-selected");
    }
    const now = byId(`row-${chosen}`);
    if (now) {
      now.setAttribute("aria-selected", "true");
      now.scrollIntoView({ block: "nearest" });
      byId("list").setAttribute("aria-activedescendant", now.id);
    } else {
      byId("list").removeAttribute("aria-activedescendant");
    }
  }

  function turn(pages) {
    page += pages;
    showList();
    byId("list").scrollTop = 0;
  }

  /** Open the completion at a place of the list. */
  async function choose(place) {
    if (!listed.length) return;
    chosen = Math.max(0, Math.min(place, listed.length - 1));
    if (Math.floor(chosen / PAGE) !== page) {
      page = Math.floor(chosen / PAGE);
      showList();
    } else {
      markChosen();
    }
    await open(listed[chosen]);
  }

  // --- one completion -----------------------------------------------------------------------------

  let shown = null; // the completion that is open: number, text as Characters, details, passage
  let withLeftOut = false;

  async function open(n) {
    const [text, details] = await Promise.all([row("texts", n), row("details", n)]);
    if (n !== listed[chosen]) return; // another one was chosen meanwhile
    shown = { n, text: new Characters(text.text), promptText: text.prompt, passage: -1, ...details };
    history.replaceState(null, "", `#${encodeURIComponent(index.id[n])}`);
    showCompletion();
    const kept = details.spans.map((span, at) => [span.dropped ? 1 : 0, -span.tokens, at]);
    kept.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    choosePassage(kept.length ? kept[0][2] : -1, false);
  }

  function showCompletion() {
    const { n, generation, trace } = shown;
    const parts = [
      element("h2", {}, element("bdi", {}, index.id[n])),
      facts(completionFacts()),
      trace.error ? element("p", { class: "alert" }, `Not traced: ${trace.error}`) : null,
      element("h3", {}, "Prompt"),
      showPrompt(),
      facts(promptFacts()),
      target(),
      element("h3", {}, "Completion"),
      element("pre", { class: "text", id: "text", dir: "auto" }),
      generation.cut
        ? element("p", { class: "note" }, `${number(generation.cut)} more characters are not here.`)
        : null,
      leftOutSwitch(),
      element("h3", {}, "Passages"),
      passageList(),
    ];
    byId("completion").replaceChildren(...parts.filter(Boolean));
    showText();
  }

  /** Facts in a line, each for itself: a mark that turns the direction of writing turns no other. */
  function facts(told) {
    const each = told.filter(Boolean).map((fact) => element("bdi", {}, fact));
    return element("p", { class: "facts" }, ...each.flatMap((fact, n) => (n ? [" · ", fact] : [fact])));
  }

  function completionFacts() {
    const { n, generation, trace } = shown;
    const whole = trace.n_whole
      ? `stands whole in the corpus ${trace.whole_exact ? "" : "at least "}` +
        `${plural(trace.n_whole, "time")}, in ${plural(trace.n_whole_documents, "document")}`
      : "";
    return [
      index.settings[index.setting[n]],
      generation.temperature
        ? `sampled, temperature ${generation.temperature}, top-p ${generation.top_p}`
        : index.decodings[index.decoding[n]],
      plural(trace.n_tokens, "token"),
      `longest passage ${number(trace.longest_segment)}`,
      `best recall ${trace.recall_max.toFixed(3)}`,
      whole,
      trace.degenerate ? "degenerate" : "",
      { length: "cut at the limit", error: "no completion" }[generation.finish_reason],
      generation.model,
      generation.note,
    ];
  }

  function showPrompt() {
    const { n, promptText } = shown;
    const why =
      index.settings[index.setting[n]] === "human"
        ? "None: a person wrote this text."
        : promptText
          ? ""
          : "None: only the mark that begins a document.";
    return why
      ? element("p", { class: "empty" }, why)
      : element("pre", { class: "text prompt", dir: "auto" }, promptText);
  }

  function promptFacts() {
    const { prompt_id } = shown.generation;
    const { kind, category, language, document_id, source, licence, copies, chat } = shown.prompt;
    return [
      prompt_id,
      kind,
      category,
      language,
      chat ? "as a chat message" : "",
      document_id ? `of document ${document_id}` : "",
      copies === null ? "" : copies ? `${plural(copies, "copy", "copies")} in the corpus` : "not in the corpus",
      source,
      licence,
    ];
  }

  function target() {
    const text = shown.prompt.target;
    if (!text) return null;
    return element(
      "details",
      {},
      element("summary", {}, "How the document truly goes on"),
      element("pre", { class: "text prompt", dir: "auto" }, text),
    );
  }

  function leftOutSwitch() {
    const n = shown.left_out.start.length;
    if (!n) return null;
    const box = element("input", { type: "checkbox", id: "left-out", "aria-keyshortcuts": "d" });
    box.checked = withLeftOut;
    box.addEventListener("change", () => {
      withLeftOut = box.checked;
      showText();
    });
    const what = `show ${plural(n, "passage")} that do${n === 1 ? "es" : ""} not count`;
    return element("p", { class: "switch" }, element("label", {}, box, ` ${what}`));
  }

  function passageList() {
    const { spans, trace } = shown;
    if (!spans.length) {
      const why = trace.n_spans
        ? "No passage was kept: those found are too short or have no word."
        : "Nothing of this completion was found in the corpus.";
      return element("p", { class: "empty" }, why);
    }
    return element(
      "ol",
      { id: "passages" },
      ...spans.map((span, at) => {
        const button = element(
          "button",
          { type: "button", "data-passage": at, "aria-pressed": "false", class: look(span) },
          element("span", { class: "tier" }, FOUND[index.found[span.tier]]),
          ` ${plural(span.tokens, "token")}, ${plural(span.occurrences, "time")} in the corpus`,
          span.dropped ? `, left out: ${span.dropped}` : "",
          element("span", { class: "begin", dir: "auto" }, begin(span)),
        );
        button.addEventListener("click", () => {
          choosePassage(at);
          scrollTo("evidence");
        });
        return element("li", {}, button);
      }),
    );
  }

  function begin(span) {
    const text = shown.text.slice(...span.at).replace(/\s+/g, " ");
    return text.length > 70 ? `${new Characters(text).slice(0, 70)}…` : text;
  }

  const look = (span) =>
    span.dropped ? "left-out" : `${index.found[span.tier].replace(" ", "-")} rare${span.rare}`;

  /** Passages that are marked: those in the list, then on demand those that do not count. */
  function marked() {
    const marks = shown.spans.map((span, passage) => ({ ...span, passage, look: look(span) }));
    if (!withLeftOut) return marks;
    const { start, stop, tokens, occurrences, why } = shown.left_out;
    const left = start.map((first, n) => ({
      at: [first, stop[n]],
      passage: -1,
      dropped: why[n],
      look: `left-out ${why[n].replace(" ", "-")}`,
      tokens: tokens[n],
      title: `${why[n]}: ${plural(tokens[n], "token")}, ${plural(occurrences[n], "time")} in the corpus`,
    }));
    return [...marks, ...left];
  }

  /** Of passages that overlap, the first is shown: kept, of most tier, rarest, longest. */
  const strength = (a, b) =>
    Boolean(a.dropped) - Boolean(b.dropped) ||
    (a.tier ?? 9) - (b.tier ?? 9) ||
    (b.rare ?? 0) - (a.rare ?? 0) ||
    b.tokens - a.tokens;

  function showText() {
    const { text } = shown;
    const marks = marked();
    const borders = new Set([0, text.length]);
    for (const { at } of marks) at.forEach((n) => borders.add(Math.min(n, text.length)));
    const places = [...borders].sort((a, b) => a - b);
    const opening = new Map(places.map((place) => [place, []]));
    for (const mark of marks) opening.get(Math.min(mark.at[0], text.length)).push(mark);
    let active = [];
    const pieces = places.slice(0, -1).map((start, n) => {
      active = [...active.filter((mark) => mark.at[1] > start), ...opening.get(start)];
      const part = text.slice(start, places[n + 1]);
      if (!active.length) return part;
      const [first, ...others] = [...active].sort(strength);
      const passages = active.filter((mark) => mark.passage >= 0).map((mark) => mark.passage);
      const several = others.some((mark) => !mark.dropped) ? " several" : "";
      return element(
        "mark",
        { class: first.look + several, "data-passages": passages.join(" "), title: first.title },
        part,
      );
    });
    byId("text").replaceChildren(...pieces);
    if (!text.length) byId("text").append(element("span", { class: "empty" }, "(empty)"));
    markPassage();
  }

  const passagesOf = (mark) => mark.dataset.passages.split(" ").filter(Boolean).map(Number);

  function markPassage() {
    for (const mark of byId("text").querySelectorAll("mark")) {
      mark.classList.toggle("chosen", passagesOf(mark).includes(shown.passage));
    }
    for (const button of byId("completion").querySelectorAll("[data-passage]")) {
      const pressed = Number(button.dataset.passage) === shown.passage;
      button.setAttribute("aria-pressed", String(pressed));
    }
  }

  function choosePassage(at, follow = true) {
    shown.passage = at;
    markPassage();
    showEvidence();
    if (follow && at >= 0) {
      byId("text").querySelector("mark.chosen")?.scrollIntoView({ block: "nearest" });
    }
  }

  /** Where everything is in one column, what a click asked for is further down. */
  function scrollTo(id) {
    if (matchMedia("(max-width: 46rem)").matches) byId(id).scrollIntoView();
  }

  /** A click on a mark: the strongest passage there, and with every further click the next. */
  function clickText(event) {
    const mark = event.target.closest("mark");
    if (!mark || String(document.getSelection())) return;
    const passages = passagesOf(mark).sort((a, b) => strength(shown.spans[a], shown.spans[b]));
    if (!passages.length) return;
    choosePassage(passages[(passages.indexOf(shown.passage) + 1) % passages.length]);
    scrollTo("evidence");
  }

  // --- documents ----------------------------------------------------------------------------------

  function showEvidence() {
    const evidence = byId("evidence");
    const span = shown.spans[shown.passage];
    if (!span) {
      evidence.replaceChildren();
      return;
    }
    const documents = shown.documents.filter((each) => each.span === span.span);
    const n = `${span.exact ? "" : "at least "}${plural(span.documents, "document")}`;
    const parts = [
      element("h2", {}, `Passage ${shown.passage + 1} of ${shown.spans.length}`),
      facts([
        plural(span.tokens, "token"),
        `characters ${number(span.characters[0])} to ${number(span.characters[1])}`,
        `stands ${plural(span.occurrences, "time")} in the corpus`,
        span.dropped ? "" : `in ${n}`,
        `log-probability ${span.log_probability ?? "-∞: the corpus has it in other tokens"}`,
        span.dropped ? `left out: ${span.dropped}` : "",
      ]),
      ...documents.filter((each) => "match" in each).map(showDocument),
      namedOnly(documents.filter((each) => !("match" in each))),
    ];
    evidence.replaceChildren(...parts.filter(Boolean));
    if (!documents.some((each) => each.compared)) evidence.append(...comparedElsewhere());
    const missing = span.fetched - documents.length;
    if (missing) {
      const what = `${plural(missing, "document")} retrieved, left out of this file for its size.`;
      evidence.append(element("p", { class: "note" }, what));
    }
    evidence.scrollTop = 0;
  }

  /** The way to the comparisons, where they are with documents of another passage. */
  function comparedElsewhere() {
    const spans = new Set(shown.documents.filter((each) => each.compared).map((each) => each.span));
    const links = shown.spans.flatMap((span, at) => {
      if (!spans.has(span.span)) return [];
      const button = element("button", { type: "button" }, `passage ${at + 1}`);
      button.addEventListener("click", () => choosePassage(at));
      return [" ", button];
    });
    const note = "The completion is set side by side with documents of";
    return links.length ? [element("p", { class: "note" }, note, ...links)] : [];
  }

  const nameOf = ({ document_id, shard, document: place }) =>
    element("bdi", {}, document_id || `document ${place} of shard ${shard}`);

  function documentFacts(found) {
    const { source, licence, tier, recall, copies, shard, document: place, offset } = found;
    return facts([
      FOUND[tier],
      `recall ${recall.toFixed(3)}`,
      copies === null ? "" : `${plural(copies, "copy", "copies")} in the corpus`,
      source && `source ${source}`,
      licence && `licence ${licence}`,
      `shard ${shard}, document ${number(place)}, token ${number(offset)}`,
    ]);
  }

  function showDocument(found) {
    const match = (text) => element("mark", { class: `${found.tier} rare2` }, text);
    const parts = [
      found.left ? cut(found.left) : "",
      found.before,
      match(found.match),
      ...(found.cut ? [cut(found.cut), match(found.end)] : []),
      found.after,
      found.right ? cut(found.right) : "",
    ];
    return element(
      "article",
      { class: "document" },
      element("h3", {}, nameOf(found)),
      documentFacts(found),
      element("pre", { class: "text", dir: "auto" }, ...parts),
      found.compared ? comparison(found.compared) : null,
    );
  }

  /** Documents of which the file has no text. */
  function namedOnly(documents) {
    if (!documents.length) return null;
    const rows = documents.map((found) =>
      element(
        "li",
        {},
        nameOf(found),
        documentFacts(found),
        found.compared ? comparison(found.compared) : null,
      ),
    );
    const title = `${plural(documents.length, "more document")} without text`;
    return element("details", {}, element("summary", {}, title), element("ul", {}, ...rows));
  }

  const cut = (n) => element("span", { class: "cut" }, `[${plural(n, "character")} more]`);

  /** Completion and document side by side; made when it is first opened. */
  function comparison(rows) {
    const words = rows.reduce((sum, [, counted]) => sum + counted, 0);
    const title = `Side by side: ${plural(words, "word")} agree in near-verbatim passages`;
    const made = element("details", { class: "comparison" }, element("summary", {}, title));
    const fill = () => {
      if (made.children.length === 1) made.append(sideBySide(rows));
    };
    made.addEventListener("toggle", () => made.open && fill());
    made.addEventListener("print", fill);
    return made;
  }

  function sideBySide(rows) {
    const heads = ["Completion", "Document"].map((name) => element("th", { scope: "col" }, name));
    const body = rows.map(([passage, , ...sides]) =>
      element(
        "tr",
        { class: passage ? "passage" : "between" },
        ...sides.map((pieces) => element("td", { dir: "auto" }, ...pieces.map(comparedPiece))),
      ),
    );
    return element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...body),
    );
  }

  function comparedPiece([kind, text]) {
    if (KINDS[kind] === "cut") return cut(text);
    return KINDS[kind] ? element("span", { class: KINDS[kind] }, text) : text;
  }

  function toggleComparisons() {
    const all = [...byId("evidence").querySelectorAll(".comparison")];
    const opened = all.some((each) => !each.open);
    for (const each of all) each.open = opened;
  }

  // --- keys ---------------------------------------------------------------------------------------

  const step = (by) => shown?.spans.length &&
    choosePassage((shown.passage + by + shown.spans.length) % shown.spans.length);

  const KEYS = {
    "/": () => byId("search").focus(),
    j: () => choose(chosen + 1),
    k: () => choose(chosen - 1),
    n: () => step(1),
    p: () => step(-1),
    c: toggleComparisons,
    d: () => byId("left-out")?.click(),
    "?": () => {
      byId("help").open = !byId("help").open;
    },
    Escape: () => {
      byId("help").open = false;
    },
  };

  const IN_LIST = {
    ArrowDown: () => chosen + 1,
    ArrowUp: () => chosen - 1,
    PageDown: () => chosen + 10,
    PageUp: () => chosen - 10,
    Home: () => 0,
    End: () => listed.length - 1,
  };

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
    if (typing) {
      if (event.key === "Escape") byId("list").focus();
      return;
    }
    const place = event.target === byId("list") && IN_LIST[event.key];
    if (place) choose(place());
    else if (Object.hasOwn(KEYS, event.key)) KEYS[event.key]();
    else return;
    event.preventDefault();
  }

  function listen() {
    let waiting;
    const soon = () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 150);
    };
    byId("filters").addEventListener("input", soon);
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("clear").addEventListener("click", () => {
      byId("filters").reset();
      filter();
    });
    byId("before").addEventListener("click", () => turn(-1));
    byId("after").addEventListener("click", () => turn(1));
    byId("list").addEventListener("click", (event) => {
      const row = event.target.closest("[data-place]");
      if (!row) return;
      choose(Number(row.dataset.place));
      scrollTo("completion");
    });
    byId("completion").addEventListener("click", clickText);
    document.addEventListener("keydown", onKey);
    window.addEventListener("hashchange", openNamed);
    window.addEventListener("beforeprint", () => {
      for (const each of document.querySelectorAll("main details")) {
        each.open = true;
        each.dispatchEvent(new Event("print")); // the toggle's own event comes after the printing
      }
    });
  }

  /** Open the completion that the address names, else the first of the list. */
  async function openNamed() {
    let name = "";
    try {
      name = decodeURIComponent(location.hash.slice(1));
    } catch {
      // An address that was cut: as if there were none.
    }
    const n = index.id.indexOf(name);
    if (n >= 0 && !listed.includes(n)) {
      byId("filters").reset();
      await filter();
    }
    if (n < 0 || n !== listed[chosen]) await choose(n < 0 ? Math.max(0, chosen) : listed.indexOf(n));
  }

  async function start() {
    index = await piece("index");
    fillFilters();
    listen();
    if (!index.id.length) byId("completion").firstChild.textContent = "There is nothing to show.";
    await filter();
    await openNamed();
    document.documentElement.dataset.ready = "";
  }

  function fail(error) {
    const old = typeof DecompressionStream === "undefined";
    byId("alert").textContent = old
      ? "This browser is too old to unpack the data: it has no DecompressionStream."
      : `The data cannot be read: ${error?.message ?? error}`;
    byId("alert").hidden = false;
  }

  window.addEventListener("unhandledrejection", (event) => fail(event.reason));
  start().catch(fail);
})();
