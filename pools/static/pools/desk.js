// The editor of topology keys: rows that are dragged or moved, buttons that edit in place, and coverage that is
// requested again after each edit. Without it the same buttons post the form as a preview; nothing here decides.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const preview = document.getElementById("preview");
  if (preview) preview.focus();
  const editor = document.querySelector("[data-keys][data-coverage]");
  if (editor && document.getElementById(`${editor.dataset.keys}-rows`)) edit(editor);
});

function edit(editor) {
  const prefix = editor.dataset.keys;
  const form = editor.closest("form");
  const body = document.getElementById(`${prefix}-rows`);
  const summary = document.getElementById(`${prefix}-coverage`);
  const total = form.elements[`${prefix}-TOTAL_FORMS`];
  const rows = () => [...body.querySelectorAll(".desk-row")];
  const field = (row, name) => form.elements[`${row.dataset.prefix}-${name}`];
  const isEmpty = (row) => !field(row, "key").value && !field(row, "label").value;
  let timer = null;
  let pending = null;
  let dragged = null;

  function number() {
    rows().filter((row) => !isEmpty(row)).forEach((row, place) => { field(row, "position").value = place; });
  }

  function changed() {
    form.dispatchEvent(new Event("change", { bubbles: true }));
    later();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  }

  async function refresh() {
    clearTimeout(timer);
    if (pending) pending.abort();
    pending = new AbortController();
    const own = pending;
    summary.setAttribute("aria-busy", "true");
    try {
      const reply = await fetch(editor.dataset.coverage, {
        method: "POST", body: new FormData(form), signal: own.signal, credentials: "same-origin",
      });
      if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
      const pieces = await reply.json();
      show(pieces);
      if (pieces.is_awaited) timer = setTimeout(refresh, 3000);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      summary.textContent = `Coverage is not known: ${problem.message}. Preview still works.`;
    }
    summary.setAttribute("aria-busy", "false");
  }

  function show(pieces) {
    editor.querySelectorAll(".desk-stale").forEach((message) => message.remove());
    for (const [row, html] of Object.entries(pieces.rows)) {
      replace(document.getElementById(`${row}-coverage`), html);
    }
    replace(summary, pieces.coverage);
    replace(document.getElementById(`${prefix}-suggestions`), pieces.suggestions);
    replace(document.getElementById("labels-seen"), pieces.labels);
  }

  // Only differences are replaced, so that screen readers repeat nothing and focus is kept.
  function replace(place, html) {
    if (!place || place.dataset.shown === html) return;
    place.dataset.shown = html;
    place.innerHTML = html;
  }

  function add() {
    const index = Number(total.value);
    const html = document.getElementById(`${prefix}-empty`).innerHTML.replaceAll("__prefix__", String(index));
    body.insertAdjacentHTML("beforeend", html);
    total.value = index + 1;
    return rows().at(-1);
  }

  function move(row, by) {
    const all = rows();
    const place = all.indexOf(row) + by;
    if (place < 0 || place >= all.length) return;
    if (by < 0) all[place].before(row); else all[place].after(row);
    number();
    changed();
  }

  const edits = {
    row: () => field(add(), "key").focus(),
    label: (button) => {
      form.elements[`${button.dataset.row}-label`].value = button.dataset.label;
      form.elements[`${button.dataset.row}-label`].focus();
      changed();
    },
    add: (button) => {
      const row = rows().find(isEmpty) || add();
      const filled = rows().filter((other) => other !== row && !isEmpty(other) && !isRemoved(other));
      field(row, "key").value = button.dataset.key;
      field(row, "label").value = button.dataset.label;
      const next = filled[Number(button.dataset.rank)];
      if (next) next.before(row); else if (filled.length) filled.at(-1).after(row);
      number();
      field(row, "key").focus();
      changed();
    },
  };

  function isRemoved(row) {
    const box = field(row, "DELETE");
    return Boolean(box && box.checked);
  }

  editor.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.move) {
      move(button.closest(".desk-row"), Number(button.dataset.move));
      button.focus();
    } else if (edits[button.dataset.edit]) {
      event.preventDefault();
      edits[button.dataset.edit](button);
    }
  });

  // A typed number moves its row, so that the visible order is the saved order.
  function sort() {
    const place = (row) => (field(row, "position").value === "" ? Infinity : Number(field(row, "position").value));
    const focused = document.activeElement;
    const sorted = rows().map((row, index) => [place(row), index, row]);
    sorted.sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] - b[0]));
    sorted.forEach(([, , row]) => body.append(row));
    focused.focus();
  }

  form.addEventListener("input", later);
  form.addEventListener("change", (event) => {
    const row = event.target.closest && event.target.closest(".desk-row");
    if (row) row.classList.toggle("desk-removed", isRemoved(row));
    if (row && event.target === field(row, "position")) sort();
    if (event.target !== form) later();
  });

  body.addEventListener("dragstart", (event) => {
    if (!event.target.classList.contains("desk-handle")) return;
    dragged = event.target.closest(".desk-row");
    dragged.classList.add("desk-dragged");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.dataset.prefix);
  });
  body.addEventListener("dragover", (event) => {
    const row = event.target.closest(".desk-row");
    if (!dragged || !row) return;
    event.preventDefault();
    rows().forEach((other) => other.classList.toggle("desk-over", other === row && other !== dragged));
  });
  body.addEventListener("drop", (event) => {
    const row = event.target.closest(".desk-row");
    if (!dragged || !row || row === dragged) return;
    event.preventDefault();
    const all = rows();
    if (all.indexOf(dragged) < all.indexOf(row)) row.after(dragged); else row.before(dragged);
    number();
    changed();
  });
  body.addEventListener("dragend", () => {
    rows().forEach((row) => row.classList.remove("desk-over", "desk-dragged"));
    dragged = null;
  });
}
