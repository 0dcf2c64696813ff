// Tables that are sorted by a click on a heading, commands that are copied, and a word at the edge of the page.
"use strict";
window.nablaToast = function (text) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.classList.add("shown");
  clearTimeout(window.nablaToast.timer);
  window.nablaToast.timer = setTimeout(() => toast.classList.remove("shown"), 6000);
};
(function () {
  const chosen = new Map(); // by table: the heading and direction, to be kept when the page gets new rows

  function value(row, column) {
    const cell = row.children[column];
    return cell.dataset.sort === undefined ? cell.textContent.trim().toLowerCase() : Number(cell.dataset.sort);
  }

  function sort(table, column, direction) {
    const body = table.tBodies[0];
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
    body.append(...rows.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      if (cell.hasAttribute("aria-sort")) cell.setAttribute("aria-sort", i === column ? direction : "none");
    });
    chosen.set(table.id, [column, direction]);
  }

  function prepare() {
    for (const table of document.querySelectorAll("table.sortable")) {
      [...table.tHead.rows[0].cells].forEach((cell, column) => {
        if (!cell.hasAttribute("aria-sort") || cell.querySelector("button")) return;
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = cell.textContent;
        cell.replaceChildren(button);
        button.addEventListener("click", () => {
          const now = cell.getAttribute("aria-sort");
          const first = cell.classList.contains("num") ? "descending" : "ascending";
          const other = first === "ascending" ? "descending" : "ascending";
          sort(table, column, now === first ? other : first);
        });
      });
      if (chosen.has(table.id)) sort(table, ...chosen.get(table.id));
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      window.nablaToast("Copied.");
    } catch {
      window.nablaToast(button.dataset.copy);
    }
  });
  document.addEventListener("nabla:updated", prepare);
  prepare();
})();
