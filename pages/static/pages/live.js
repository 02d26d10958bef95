// Keeps the parts of a page that are marked data-live as they are now: loads the page again every few
// seconds and puts in what differs. Open details and the focus stay where they were. It rests while nobody
// looks, can be paused, and ends when the page has nothing live any more.
"use strict";
(() => {
  const SECONDS = 3;
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
  let waits = SECONDS;

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
    old.replaceWith(fresh);
    fresh.querySelectorAll("details").forEach((one, index) => {
      if (open[index] !== undefined) one.open = open[index];
    });
    const back = (id && document.getElementById(id)) || fresh.querySelectorAll(way)[place];
    if (inside && back) back.focus({ preventScroll: true });
    fresh.classList.add("fresh");
  }

  async function update() {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of live()) {
      const fresh = page.getElementById(old.id);
      if (!fresh) {
        old.removeAttribute("data-live");
      } else if (fresh.outerHTML !== shown.get(old.id)) {
        shown.set(old.id, fresh.outerHTML);
        put(old, document.importNode(fresh, true));
      }
    }
  }

  async function step() {
    if (!paused && !document.hidden && !asking) {
      asking = true;
      try {
        await update();
        waits = SECONDS;
        if (!paused) label();
      } catch (error) {
        waits = Math.min(waits * 2, 60);
        tell(` The service does not answer (${error.message}); what you see may be old. Trying again.`);
      } finally {
        asking = false;
      }
    }
    if (live().length) setTimeout(step, waits * 1000);
    else foot.replaceChildren("Nothing on this page changes any more.");
  }

  button.addEventListener("click", () => {
    paused = !paused;
    label();
  });
  label();
  foot.append(button, said);
  setTimeout(step, waits * 1000);
})();
