// Light, dark, or as the system has it: the choice is kept in this browser. Not a module: it runs before the first paint.
"use strict";
(() => {
  const NAMES = ["auto", "light", "dark"];
  const KEY = "beam-web-theme";
  const chosen = () => {
    try {
      const kept = localStorage.getItem(KEY);
      return NAMES.includes(kept) ? kept : "auto";
    } catch {
      return "auto";
    }
  };
  const show = (name) => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    const button = document.getElementById("theme");
    if (button) button.querySelector("span").textContent = name;
  };
  show(chosen());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    show(chosen());
    button.addEventListener("click", () => {
      const next = NAMES[(NAMES.indexOf(chosen()) + 1) % NAMES.length];
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // Where nothing can be kept, the choice is this page's.
      }
      show(next);
    });
  });
})();
