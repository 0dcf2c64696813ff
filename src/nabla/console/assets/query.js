// A box for SQL, its result as a table, and a quick chart of a column of numbers.
"use strict";
(function () {
  const SVG = "http://www.w3.org/2000/svg";
  const MOST = 60;
  const byId = (id) => document.getElementById(id);
  const form = byId("query"), sql = byId("sql"), state = byId("query-state"), problem = byId("query-error");
  const NUMBERS = /^(tinyint|smallint|int|bigint|float|double|decimal)/;

  function make(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function draw(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function showTable(said) {
    const head = make("tr", {}, ...said.columns.map((column) => make("th", { scope: "col", title: column.type }, column.name)));
    const rows = said.rows.map((row) => make("tr", {}, ...row.map((value) => {
      const cell = make("td", {});
      cell.append(value === null ? make("span", { class: "null" }, "NULL") : value);
      return cell;
    })));
    byId("result").replaceChildren(make("table", { class: "data" }, make("thead", {}, head), make("tbody", {}, ...rows)));
    byId("result-card").hidden = false;
  }

  function showChart(said) {
    const numeric = said.columns.map((c, i) => i).filter((i) => NUMBERS.test(said.columns[i].type));
    const card = byId("chart-card");
    card.hidden = !numeric.length || said.rows.length < 2;
    if (card.hidden) return;
    const labels = said.columns.map((c, i) => i).find((i) => !numeric.includes(i)) ?? numeric[0];
    const start = numeric.find((i) => i !== labels) ?? numeric[0];
    const choose = make("select", { id: "chart-column" }, ...numeric.map((i) => make("option", { value: String(i) }, said.columns[i].name)));
    choose.value = String(start);
    choose.addEventListener("change", () => bars(said, labels, Number(choose.value)));
    byId("chart-tools").replaceChildren(make("label", {}, "column ", choose), make("span", { class: "muted" }, `by ${said.columns[labels].name}${said.rows.length > MOST ? `, the first ${MOST} rows` : ""}`));
    bars(said, labels, start);
  }

  function bars(said, labels, column) {
    const rows = said.rows.slice(0, MOST).map((row) => [row[labels] ?? "NULL", Number(row[column])]).filter(([, v]) => Number.isFinite(v));
    const W = 760, H = 250, left = 64, bottom = 46;
    const low = Math.min(0, ...rows.map(([, v]) => v)), high = Math.max(0, ...rows.map(([, v]) => v));
    const y = (value) => 12 + (H - bottom - 12) * (1 - (value - low) / (high - low || 1));
    const step = (W - left - 8) / Math.max(1, rows.length);
    const svg = draw("svg", { class: "plot", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${said.columns[column].name} by ${said.columns[labels].name}` });
    for (const mark of [low, (low + high) / 2, high]) {
      svg.append(draw("line", { class: "tick", x1: left, x2: W - 8, y1: y(mark), y2: y(mark) }));
      svg.append(draw("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, Intl.NumberFormat("en", { notation: "compact" }).format(mark)));
    }
    rows.forEach(([label, value], i) => {
      const x = left + step * i, top = Math.min(y(value), y(0));
      const bar = draw("rect", { class: "chart-bar", x: x + step * 0.14, y: top, width: step * 0.72, height: Math.max(1, Math.abs(y(value) - y(0))), rx: Math.min(3, step / 4) });
      bar.append(draw("title", {}, `${label}: ${value}`));
      svg.append(bar);
      if (rows.length <= 12) svg.append(draw("text", { x: x + step / 2, y: H - bottom + 18, "text-anchor": "middle" }, String(label).slice(0, Math.max(4, Math.floor(step / 7)))));
    });
    byId("chart").replaceChildren(svg);
  }

  async function run() {
    const text = sql.value.trim();
    if (!text) return;
    const button = form.querySelector("[type=submit]");
    button.disabled = true;
    problem.hidden = true;
    state.textContent = "running …";
    const begun = performance.now();
    try {
      const said = await window.nablaAsk("query", { sql: text });
      showTable(said);
      showChart(said);
      state.textContent = `${said.rows.length.toLocaleString("en")} rows${said.more ? ", and more" : ""} in ${((performance.now() - begun) / 1000).toFixed(1)} s`;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      state.textContent = "";
    } finally {
      button.disabled = false;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  sql.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  form.addEventListener("click", (event) => {
    const name = event.target.closest("[data-insert]")?.dataset.insert;
    if (!name) return;
    sql.setRangeText(sql.value ? name : `SELECT * FROM ${name}`, sql.selectionStart, sql.selectionEnd, "end");
    sql.focus();
  });
})();
