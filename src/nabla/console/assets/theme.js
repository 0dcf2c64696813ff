// Light or dark: as the system says, or as the reader chose. Runs before the page is drawn, so that nothing flickers.
"use strict";
(function () {
  const KEY = "nabla-theme";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  function stored() {
    try { return localStorage.getItem(KEY); } catch { return null; }
  }
  function show() {
    const chosen = stored();
    root.dataset.theme = chosen || (system.matches ? "dark" : "light");
  }
  show();
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem(KEY, next); } catch { /* then it is forgotten with the page */ }
      root.dataset.theme = next;
    });
  });
})();
