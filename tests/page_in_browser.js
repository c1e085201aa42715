// What a page of `onnxfit report` or `onnxfit run --html` is held to, asked in the browser that shows it: page_in_browser.py
// puts this behind the page's own script, and reads the answer off the document.
"use strict";
(() => {
  const wrong = [];
  const check = (holds, what) => { if (!holds) wrong.push(what); };
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const data = JSON.parse(document.getElementById("data").textContent);

  // Its numbers are those of its JSON.
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const bytesOf = (cells) => sum(cells.map((cell) => Number(cell.dataset.bytes)));
  const compares = "increase_bytes" in data, isRun = data.basis === "run";
  const placed = isRun ? [] : compares ? data.nodes.map((node) => node.new_bytes - node.old_bytes)
    : data.places.map((place) => place.bytes);

  const checkEstimate = () => {
    const peak = compares ? data.after.peak : data.peak;
    const shown = bytesOf(all("#places [data-bytes]"));
    check(shown === sum(placed), "places do not add up: " + shown);
    check(data.curve.allocated[data.curve.peak] === peak.allocated_bytes, "the curve's peak");
    check(Math.max(...data.curve.reserved) <= peak.reserved_bytes, "the curve's reserved bytes");
    const rows = all(compares ? "#kinds table" : "#peak table")[0].tBodies[0].rows;
    const filled = compares ? data.kinds.filter((kind) => kind.old_bytes + kind.new_bytes !== 0).length
      : data.breakdown.filter((row) => row.bytes !== 0).length;
    check(rows.length === filled + 1, "a row for each kind: " + rows.length);
    if (compares) {
      const changes = all("#kinds [data-bytes]").map((cell) => Number(cell.dataset.bytes));
      check(changes.pop() === data.increase_bytes, "the change as a whole");
      check(sum(changes) === data.increase_bytes, "kinds do not add up: " + changes);
      check(all("path.before").length === 1, "no curve of before");
    }
    data.curve.allocated.forEach((bytes, i) => {
      const kinds = sum(Object.values(data.curve.kinds).map((of) => of[i]));
      check(kinds <= bytes, "kinds above what is allocated at " + i);
    });
    check(compares || all("#batch tbody tr").length === data.batches.length, "a row for each batch");
  };

  // Of a program's run: each figure is of a process, whose lines add up.
  const checkRun = () => {
    const figures = all("figure.curve");
    check(figures.length > 0, "no curve");
    for (const figure of figures) {
      const path = figure.dataset.json.split(".");
      const curve = path.reduce((value, key) => value[key], data);
      const process = path.slice(0, -1).reduce((value, key) => value[key], data);
      const most = Math.max(...curve.requested);
      check(curve.requested[curve.peak] === most, "the curve's peak");
      check(most === Math.max(...process.devices.map((device) => device.requested_bytes)),
            "not PyTorch's own peak: " + most);
      curve.requested.forEach((bytes, i) => {
        const lines = sum(curve.lines.map((line) => line.requested[i]));
        check(lines === bytes, "lines do not add up at " + i + ": " + lines);
        check(bytes <= curve.reserved[i], "more than is reserved at " + i);
      });
      const table = figure.closest("details") ||
        document.getElementById("lines");
      const held = bytesOf(Array.from(table.querySelectorAll("tr:not(.within) [data-bytes]")));
      check(held === process.held_bytes, "held bytes do not add up: " + held);
    }
    const batches = (data.targets || []).flatMap((target) => target.tried || []);
    check(all("[id^=batch-] tbody tr").length === batches.length, "a row for each batch");
    const cards = data.runs ? data.targets.length : 0;
    check(all("#cards tbody tr").length === cards, "a row for each card");
  };
  (isRun ? checkRun : checkEstimate)();

  // It fits the window.
  const scrolls = (element) => {
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement) {
      if (getComputedStyle(e).overflowX !== "visible") return true;
    }
    return false;
  };
  // Words may be wider than what they stand in.
  const rightOf = (element) => Math.max(...Array.from(element.childNodes).map((node) => {
    const range = document.createRange();
    range.selectNode(node);
    return range.getBoundingClientRect().right;
  }), element.getBoundingClientRect().right);
  const outside = all("body *").filter((e) => rightOf(e) > window.innerWidth + 0.5 && !scrolls(e))
    .map((e) => e.tagName + "." + (e.getAttribute("class") || "") + " " +
                e.textContent.trim().slice(0, 40));
  check(document.documentElement.scrollWidth <= window.innerWidth,
        "wider than the window: " + document.documentElement.scrollWidth + " > " + window.innerWidth +
        ", with " + outside.slice(-3).join("; "));

  // Words can be read: WCAG 2.2, 1.4.3.
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  for (const element of all("body *")) {
    const own = Array.from(element.childNodes).some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || element.closest("script, style, [hidden]")) continue;
    const ink = luminance(parse(getComputedStyle(element).color)), paper = luminance(behind(element));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const large = parseFloat(getComputedStyle(element).fontSize) >= 24;
    check(ratio >= (large ? 3 : 4.5),
          "contrast " + ratio.toFixed(2) + ": " + element.className + " " + element.textContent.slice(0, 30));
  }
  // The parts of pictures, against the page: 1.4.11.
  const page = luminance(behind(document.body));
  for (const mark of all(".legend i[class^=k-]")) {
    const ink = luminance(parse(getComputedStyle(mark).backgroundColor));
    const ratio = (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
    check(ratio >= 1.9, "a layer of contrast " + ratio.toFixed(2) + ": " + mark.className);
  }

  // It can be heard, and used without a pointer.
  check(document.documentElement.lang === "en", "no language");
  check(document.title.length > 0, "no title");
  check(all("h1").length === 1, "one h1");
  let level = 0;
  for (const heading of all("h1, h2, h3")) {
    const next = Number(heading.tagName[1]);
    check(next <= level + 1, "a heading skips a level: " + heading.textContent);
    level = next;
  }
  for (const section of all("section")) {
    const title = document.getElementById(section.getAttribute("aria-labelledby"));
    check(title && title.textContent, "a section without a name: " + section.id);
  }
  for (const head of all("th")) check(head.scope === "col" || head.scope === "row", "th without scope");
  for (const svg of all("svg")) {
    check(svg.closest("[aria-hidden=true], [role=img], [role=slider]"), "svg without a role");
  }
  for (const input of all("input")) check(input.labels.length === 1, "an input without a label");
  for (const element of all("[tabindex], button, input, a")) {
    check(element.tabIndex <= 0, "an order of its own: " + element.outerHTML.slice(0, 60));
    const name = element.getAttribute("aria-label") || element.title || element.textContent ||
      (element.labels && element.labels.length);
    check(name, "no name: " + element.outerHTML.slice(0, 60));
  }
  const ids = all("[id]").map((element) => element.id);
  check(new Set(ids).size === ids.length, "an id twice");

  // Keys move through the curve; the table is sorted and searched.
  const field = document.querySelector(".curve .field"), readout = document.querySelector(".curve .readout");
  const press = (key) => field.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
  press("Home");
  const first = readout.textContent;
  press("End");
  check(first !== readout.textContent, "keys do not move through the curve");
  check(isRun || first.startsWith("forward"), "the curve begins with " + first);
  const table = document.getElementById("places");
  check(table || placed.length === 0, "no table of places");
  if (table) {
    const head = table.querySelector("th"), button = head.querySelector("button");
    const firstBytes = () => Number(document.querySelector("#places [data-bytes]").dataset.bytes);
    const most = firstBytes();
    button.click();
    check(head.getAttribute("aria-sort") === "ascending" && firstBytes() <= most, "not sorted");
    button.click();
    check(firstBytes() === most, "not sorted back");
    const search = document.getElementById("search");
    search.value = "no such name";
    search.dispatchEvent(new Event("input"));
    check(all("#places tbody tr:not([hidden])").length === 0, "not searched");
  }

  const answer = document.createElement("pre");
  answer.id = "checked";
  answer.textContent = JSON.stringify({ width: window.innerWidth, wrong });
  document.body.append(answer);
})();
