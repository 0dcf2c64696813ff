// Refreshes: what runs now, and filters of what is past.
"use strict";
(function () {
  const holder = document.getElementById("running");

  function make(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  const span = (text, kind) => make("span", kind ? { class: kind } : {}, text);
  const round = (seconds) => (seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`);

  function bar(view) {
    if (view.state === "done" || view.state === "failed") return make("progress", { max: "1", value: "1", "aria-label": view.name });
    if (view.state === "waiting" || !view.steps) return make("progress", { max: "1", ...(view.state === "waiting" ? { value: "0" } : {}), "aria-label": view.name });
    return make("progress", { max: String(view.steps), value: String(Math.max(0, view.step - 0.5)), "aria-label": view.name });
  }

  function doing(view) {
    if (view.state === "waiting") return span("waits", "muted");
    const mode = view.mode ? [make("span", { class: `mode m-${view.mode}` }, view.mode), " "] : [];
    if (view.state === "done") {
      const rows = view.inserted === null ? "" : ` +${view.inserted.toLocaleString("en")} −${view.deleted.toLocaleString("en")}`;
      return make("span", {}, ...mode, `${view.seconds === null ? "" : round(view.seconds)}${rows}`);
    }
    if (view.state === "failed") return make("span", { class: "minus" }, "failed");
    const step = view.steps ? `step ${view.step} of ${view.steps}: ` : "";
    return make("span", {}, ...mode, span(`${step}${view.doing}${view.rows ? `, ${view.rows.toLocaleString("en")} rows so far` : ""}`, "muted"));
  }

  function showRuns(runs) {
    holder.dataset.runs = String(runs.length);
    if (!runs.length) {
      holder.replaceChildren(make("p", { class: "muted" }, "Nothing runs."));
      return;
    }
    holder.replaceChildren(...runs.map((run) => {
      const left = run.left === null || run.left === undefined ? "" : `, about ${round(run.left)} left`;
      const list = make("ul", {}, ...Object.values(run.views).map((view) => make("li", {}, span(view.name), bar(view), doing(view))));
      return make("div", { class: "run" }, make("h3", {}, `${run.kind} `, span(`for ${round(run.seconds)}${left}, process ${run.process} on ${run.host}`, "muted")), list);
    }));
  }

  function filter() {
    const view = document.getElementById("filter-view"), mode = document.getElementById("filter-mode");
    const fits = (one) => (!view.value || one.dataset.view === view.value) && (!mode.value || !one.dataset.mode || one.dataset.mode === mode.value);
    const rows = [...document.querySelectorAll("#past tbody tr")];
    for (const row of rows) row.hidden = !fits(row);
    for (const one of document.querySelectorAll(".plot [data-view]")) one.classList.toggle("off", !fits(one));
    document.getElementById("filter-count").textContent = view.value || mode.value ? `${rows.filter((row) => !row.hidden).length} refreshes` : "";
  }

  document.addEventListener("nabla:running", (event) => showRuns(event.detail));
  document.addEventListener("nabla:updated", filter);
  for (const id of ["filter-view", "filter-mode"]) document.getElementById(id).addEventListener("change", filter);
  const now = JSON.parse(document.getElementById("running-data").textContent);
  if (now.length) showRuns(now);
})();
