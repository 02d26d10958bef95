// Keeps the parts of a page that are marked data-live as they are now: loads the page again and puts in what
// differs, what came, and takes out what went. Open details, the focus and how far tables are scrolled stay as
// they were. It rests while nobody looks, can be paused, and ends when the page has nothing live any more.
// A page with data-watch is loaded at each event of the stream at that address, and now and then for what the
// stream does not tell, such as times; without a stream, every few seconds.
"use strict";
(() => {
  const SECONDS = 3;
  const WATCHED_SECONDS = 15;
  const PARTS = "section[id^='live-']";
  const SAID = {
    0: "You are no longer logged in; what you see is old. Load the page again.",
    401: "You are no longer logged in; what you see is old. Load the page again.",
    403: "You may not see this any more; what you see is old.",
    404: "What this page shows is no longer there; what you see is old.",
  };
  const live = () => [...document.querySelectorAll("[data-live][id]")];
  if (!live().length) return;

  const shown = new Map(live().map((part) => [part.id, part.outerHTML]));
  const foot = document.getElementById("live-control");
  const button = document.createElement("button");
  const said = document.createElement("span");
  button.className = "plain";
  button.type = "button";
  said.setAttribute("role", "status");
  let paused = false;
  let asking = false;
  let again = false;
  let loadedAt = Date.now();
  let waits = SECONDS;
  let watched = document.querySelector("[data-watch]")?.dataset.watch;
  let stream = null;
  let timer = 0;

  function tell(text) {
    if (said.textContent !== text) said.textContent = text;
  }

  function label() {
    button.textContent = paused ? "Go on updating" : "Pause updating";
    tell(paused ? " This page stands still." : " This page updates itself.");
  }

  function put(old, fresh) {
    const open = [...old.querySelectorAll("details")].map((one) => one.open);
    const focus = document.activeElement;
    const inside = old.contains(focus);
    const id = inside ? focus.id : "";
    const way = "a, button, summary, input, select, [tabindex]";
    const place = inside ? [...old.querySelectorAll(way)].indexOf(focus) : -1;
    const across = [...old.querySelectorAll(".wide")].map((one) => one.scrollLeft);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".wide").forEach((one, index) => { one.scrollLeft = across[index] || 0; });
    fresh.querySelectorAll("details").forEach((one, index) => {
      if (open[index] !== undefined) one.open = open[index];
    });
    const back = (id && document.getElementById(id)) || fresh.querySelectorAll(way)[place];
    if (inside && back) back.focus({ preventScroll: true });
    fresh.classList.add("fresh");
  }

  // What is fetched to another address is the login's form; a browser tells no more of it than status 0.
  async function load() {
    const away = (why) => `The service does not answer${why}; what you see may be old. Trying again.`;
    const asked = fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    const answer = await asked.catch(() => { throw new Error(away("")); });
    if (!answer.ok) throw new Error(SAID[answer.status] || away(` (${answer.status})`));
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  function update(page) {
    for (const old of live()) {
      const fresh = page.getElementById(old.id);
      if (!fresh) {
        old.remove();
      } else if (fresh.outerHTML !== shown.get(old.id)) {
        shown.set(old.id, fresh.outerHTML);
        put(old, document.importNode(fresh, true));
      }
    }
    let before = null;
    for (const fresh of page.querySelectorAll(PARTS)) {
      if (!document.getElementById(fresh.id)) {
        shown.set(fresh.id, fresh.outerHTML);
        const part = document.importNode(fresh, true);
        if (before) before.after(part);
        else document.querySelector(PARTS)?.before(part);
      }
      before = document.getElementById(fresh.id);
    }
  }

  function schedule() {
    if (asking || !live().length) return;
    const quiet = stream?.readyState === EventSource.OPEN && !again;
    const seconds = quiet ? Math.max(waits, WATCHED_SECONDS) : waits;
    clearTimeout(timer);
    timer = setTimeout(step, Math.max(loadedAt + seconds * 1000 - Date.now(), 0));
  }

  // At once, but however often something changes, not more often than without a stream.
  function hurry() {
    again = true;
    schedule();
  }

  // Open only while somebody looks: a browser has six connections to a service, and each stream takes one.
  function listen() {
    if (!watched || paused || document.hidden || !live().length) {
      stream?.close();
      stream = null;
    } else if (!stream) {
      stream = new EventSource(watched);
      stream.addEventListener("state", hurry);
      stream.addEventListener("end", () => { watched = ""; listen(); hurry(); });
      stream.addEventListener("error", ({ target }) => {
        if (target.readyState === EventSource.CLOSED) watched = "";  // refused; else it tries again by itself
        listen();
        schedule();
      });
    }
  }

  async function step() {
    again = false;
    if (!paused && !document.hidden) {
      asking = true;
      try {
        update(await load());
        waits = SECONDS;
        if (!paused) label();
      } catch (error) {
        waits = Math.min(waits * 2, 60);
        tell(` ${error.message}`);
      } finally {
        asking = false;
      }
    }
    loadedAt = Date.now();
    listen();
    schedule();
    if (!live().length) foot.replaceChildren("Nothing on this page changes any more.");
  }

  button.addEventListener("click", () => {
    paused = !paused;
    label();
    listen();
    if (!paused) hurry();
  });
  document.addEventListener("visibilitychange", () => {
    listen();
    if (!document.hidden) hurry();
  });
  label();
  foot.append(button, said);
  listen();
  schedule();
})();
