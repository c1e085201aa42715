#include "estimator/picture/page_parts.h"

namespace onnxfit {

// What a page can do without it, it does without it.
std::string_view PageScript() {
  return R"js(
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  // As the page's own numbers are: a half goes to the even digit.
  const rounded = (value, digits) => {
    const scale = 10 ** digits, whole = Math.floor(value * scale), rest = value * scale - whole;
    const up = rest > 0.5 || (rest === 0.5 && whole % 2 === 1);
    return ((whole + (up ? 1 : 0)) / scale).toFixed(digits);
  };
  const size = (bytes) => {
    if (bytes < 0) return "-" + size(-bytes);
    let unit = 0;
    while (bytes >= (unit === 0 ? 1024 : 1023.95) && unit < 6) { bytes /= 1024; ++unit; }
    return (unit === 0 ? bytes : rounded(bytes, bytes < 9.995 ? 2 : 1)) + " " + units[unit];
  };

  // A curve: what lives at the instant under the pointer, or where the arrow keys went.  Of an
  // estimate by phase and kind, of a program's run by turn and line.
  const follow = (figure, curve) => {
    const field = figure.querySelector(".field"), readout = figure.querySelector(".readout");
    const cursor = document.createElement("div");
    const most = curve.allocated || curve.requested, count = most.length;
    const layers = curve.lines ? curve.lines.map((line) => [line.name, line.requested])
      : Object.entries(curve.kinds).map(([kind, bytes]) => [kind.replace(/_/g, " "), bytes]);
    const asked = curve.nodes || curve.asked_by;
    let at = curve.peak;
    cursor.className = "cursor";
    cursor.hidden = true;
    field.append(cursor);
    readout.hidden = false;
    const phaseOf = (point) => {
      if (curve.phases) return curve.phases.filter((phase) => phase.from <= point).pop().phase;
      const turn = curve.is_cut ? 0 : curve.turns.filter((from) => from <= point).length;
      return turn ? "turn " + turn : Math.round(100 * point / count) + " %";
    };
    const tell = (point) => {
      const parts = layers.filter(([, bytes]) => bytes[point] > 0)
        .sort((a, b) => b[1][point] - a[1][point])
        .map(([name, bytes]) => name + " " + size(bytes[point]));
      return phaseOf(point) + (asked[point] ? ", " + asked[point] : "") + ": " +
        size(most[point]) + (curve.allocated ? " allocated, " : " in tensors, ") + size(curve.reserved[point]) +
        " reserved. " + parts.join(", ");
    };
    const show = (point) => {
      at = Math.max(0, Math.min(count - 1, point));
      cursor.hidden = false;
      cursor.style.left = 100 * (at + 0.5) / count + "%";
      readout.textContent = tell(at);
      field.setAttribute("aria-valuenow", at);
      field.setAttribute("aria-valuetext", readout.textContent);
    };
    field.setAttribute("role", "slider");
    field.setAttribute("tabindex", "0");
    field.setAttribute("aria-valuemin", 0);
    field.setAttribute("aria-valuemax", count - 1);
    field.addEventListener("pointermove", (event) => {
      const box = field.getBoundingClientRect();
      show(Math.floor((event.clientX - box.left) / box.width * count));
    });
    const moves = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 20, PageDown: -20,
      Home: -count, End: count };
    field.addEventListener("keydown", (event) => {
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(at + moves[event.key]);
    });
    show(at);
  };
  for (const figure of document.querySelectorAll("figure.curve")) {
    follow(figure, figure.dataset.json.split(".").reduce((value, key) => value[key], data));
  }

  // The table of nodes: sorted by any column, searched by name.
  const table = document.getElementById("places");
  if (table) {
    const body = table.tBodies[0], rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
    const value = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.bytes === undefined ? cell.textContent : Number(cell.dataset.bytes);
    };
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const falls = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falls ? "descending" : "ascending");
        rows.sort((a, b) => {
          const x = value(a, column), y = value(b, column);
          return (x < y ? -1 : x > y ? 1 : 0) * (falls ? -1 : 1);
        });
        body.append(...rows);
      });
    });
    const search = document.getElementById("search"), found = document.getElementById("found");
    search.closest(".search").hidden = false;
    const filter = () => {
      const wanted = search.value.toLowerCase();
      let bytes = 0, shown = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        if (row.hidden) continue;
        ++shown;
        bytes += value(row, 0);
      }
      found.textContent = shown + " with " + size(bytes);
    };
    search.addEventListener("input", filter);
    filter();
  }
})();
)js";
}

}  // namespace onnxfit
