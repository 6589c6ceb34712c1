// Keeps a page current: replaces parts that the server sends, shows times in the zone of the
// browser, counts ages, and names the columns of tables on narrow screens. Without it, the page shows the numbers at its load.
"use strict";
(() => {
  const skew = (() => {
    const now = document.querySelector('meta[name="now"]');
    return now ? Date.parse(now.content) - Date.now() : 0;
  })();
  const line = document.getElementById("live");

  // Times.
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
  const pair = (value, unit, rest, restUnit) =>
    rest ? `${value} ${unit} ${rest} ${restUnit}` : `${value} ${unit}`;
  const length = (s) => {
    if (s < 60) return `${s} s`;
    if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
    if (s < 86400) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
    return pair(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
  };
  const set = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  const zone = (root) => {
    for (const time of root.querySelectorAll("time:not([data-count])")) {
      const value = Date.parse(time.dateTime);
      if (!Number.isNaN(value)) set(time, format.format(value));
    }
  };
  const count = (root) => {
    const now = Date.now() + skew;
    for (const time of root.querySelectorAll("time[data-count]")) {
      const distance = Date.parse(time.dateTime) - now;
      const past = time.dataset.count === "age" ? -distance : distance;
      set(time, length(Math.max(0, Math.floor(past / 1000))));
    }
  };

  // Tables. On a narrow screen the style shows each row as a card, with the names of the columns. Long
  // keys of the configuration may break after a dot.
  const name = (root) => {
    for (const table of root.querySelectorAll("table")) {
      const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
      for (const row of table.tBodies[0].rows) {
        [...row.cells].forEach((cell, index) => {
          if (cell.localName === "td" && cell.colSpan === 1) cell.dataset.label = names[index];
        });
      }
      table.classList.add("named");
    }
    for (const key of root.querySelectorAll("th > code")) {
      const parts = key.textContent.split(".").flatMap((part, index) =>
        index ? [".", document.createElement("wbr"), part] : [part]);
      key.replaceChildren(...parts);
    }
  };

  // Parts. A part with an open action or a focused field is replaced only after that ends.
  const waiting = new Map();
  const isInUse = (part) => {
    const focus = document.activeElement;
    const types = focus && part.contains(focus) && focus.matches("input, select, textarea");
    return types || part.querySelector("details.act[open]") !== null;
  };
  // What an element and its successor in a new rendering have in common.
  const mark = (element) =>
    ["id", "href", "value", "aria-label"].map((name) => element.getAttribute(name)).find(Boolean) ||
    element.textContent;
  const show = (id, html) => {
    const part = document.getElementById(id);
    if (!part) return;
    if (isInUse(part)) {
      waiting.set(id, html);
      part.classList.add("held");
      return;
    }
    waiting.delete(id);
    part.classList.remove("held");
    const focus = document.activeElement;
    const kept = focus && part.contains(focus) ? [focus.localName, mark(focus)] : null;
    const scrolls = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    part.innerHTML = html;
    name(part);
    zone(part);
    count(part);
    part.querySelectorAll(".scroll").forEach((box, index) => (box.scrollLeft = scrolls[index] || 0));
    if (kept) {
      const again = [...part.querySelectorAll(kept[0])].find((one) => mark(one) === kept[1]);
      if (again) again.focus({ preventScroll: true });
    }
  };
  const flush = () => {
    for (const [id, html] of [...waiting]) show(id, html);
  };
  document.addEventListener("toggle", flush, true);
  document.addEventListener("focusout", () => setTimeout(flush));

  // The stream.
  let source = null;
  let again = 0;
  const say = (text, state) => {
    set(line, text);
    document.body.dataset.state = state;
  };
  const retry = (seconds) => {
    clearTimeout(again);
    again = setTimeout(open, seconds * 1000);
  };
  // A refused stream has no status for scripts, so a request reads the reason.
  const why = async () => {
    const stop = new AbortController();
    try {
      const answer = await fetch(document.body.dataset.live, { signal: stop.signal });
      if (answer.ok) return null;
      if (answer.status === 401) location.reload();
      return (await answer.text()).trim();
    } catch {
      return "the server does not answer";
    } finally {
      stop.abort();
    }
  };
  const open = () => {
    if (source) source.close();
    source = new EventSource(document.body.dataset.live);
    source.onopen = () => say("Live: the numbers change as they change on the server.", "live");
    source.addEventListener("part", (event) => {
      const end = event.data.indexOf("\n");
      const id = end < 0 ? event.data : event.data.slice(0, end);
      show(id, end < 0 ? "" : event.data.slice(end + 1));
    });
    source.addEventListener("ended", () => {
      source.close();
      location.reload();
    });
    source.onerror = async () => {
      say("Not live: connecting again.", "lost");
      if (source.readyState !== EventSource.CLOSED) return;
      const reason = await why();
      if (reason) say(`Not live: ${reason}`, "lost");
      retry(reason ? 15 : 1);
    };
  };
  // A hidden page needs no stream.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(again);
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (document.body.dataset.live) {
      open();
    }
  });

  name(document);
  zone(document);
  count(document);
  setInterval(() => count(document), 1000);
  if (line && document.body.dataset.live && !document.hidden) open();
})();
