// What Unfold and Django leave out of their pages for screen readers: landmarks, and names of what has none.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const main = document.querySelector("#main, body.login #page > div");
  if (main) main.setAttribute("role", "main");
  document.querySelectorAll("[data-simplebar]").forEach((box, index) => { // before they are made regions
    box.dataset.simplebarAriaLabel = box.id === "nav-sidebar-apps" ? "Applications" : `Table ${index}`;
  });
  document.querySelectorAll("th").forEach((heading) => {
    if (!heading.textContent.trim()) heading.insertAdjacentHTML("beforeend", '<span class="desk-hidden">Remove</span>');
  });
});

window.addEventListener("load", () => setTimeout(() => { // after Django made its lists to choose from
  document.querySelectorAll("span[aria-label]:not([role])").forEach((tip) => tip.setAttribute("role", "img"));
}));
