// Shows of the box that has the keyboard's focus what its tooltip says to those who point at it.
"use strict";
document.addEventListener("focusin", ({ target }) => {
  document.getElementById("map-focus").textContent = target.closest(".map a")?.querySelector("title")?.textContent ?? "";
});
