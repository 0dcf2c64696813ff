// Live updates: when the lake has a new version, the page is fetched again and the parts that may have changed are exchanged.
// Actions: buttons that ask the console to refresh or verify.
"use strict";
(function () {
  const light = document.getElementById("live");
  let version = document.body.dataset.version || "", busy = false, again = false;

  function show(state, words) {
    if (light.dataset.state === state && light.lastElementChild.textContent === words) return;
    light.dataset.state = state;
    light.lastElementChild.textContent = words;
  }

  // Exchange the parts, but keep what the reader has opened and where the reader is.
  async function update() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { accept: "text/html" } });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const open = new Map([...document.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
        for (const part of page.querySelectorAll("[data-live]")) {
          const old = document.querySelector(`[data-live="${part.dataset.live}"]`);
          if (!old || old.isEqualNode(part)) continue;
          const focus = old.contains(document.activeElement) ? document.activeElement.id : "";
          const left = old.scrollLeft, top = old.scrollTop;
          const fresh = document.importNode(part, true);
          for (const one of fresh.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = open.get(one.id);
          old.replaceWith(fresh);
          fresh.scrollLeft = left;
          fresh.scrollTop = top;
          if (focus) document.getElementById(focus)?.focus();
        }
        version = page.body.dataset.version || version;
        document.body.dataset.version = version;
        document.dispatchEvent(new CustomEvent("nabla:updated"));
      }
    } finally {
      busy = false;
    }
    if (again) {
      again = false;
      update();
    }
  }

  function listen() {
    const source = new EventSource(`/events?version=${encodeURIComponent(version)}`);
    source.addEventListener("open", () => show("on", "live"));
    source.addEventListener("lake", () => update());
    source.addEventListener("running", (event) => {
      const runs = JSON.parse(event.data);
      const views = runs.flatMap((run) => Object.values(run.views)).filter((view) => view.state === "running");
      show(runs.length ? "running" : "on", runs.length ? `${runs[0].kind}${views.length ? ": " + views[0].name : ""}` : "live");
      document.dispatchEvent(new CustomEvent("nabla:running", { detail: runs }));
    });
    source.addEventListener("error", () => show("off", "offline"));
    window.addEventListener("pagehide", () => source.close());
  }

  window.nablaAsk = async function (action, body) {
    const answer = await fetch(`/actions/${action}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    let said;
    try {
      said = await answer.json();
    } catch {
      throw new Error(`refused (${answer.status})`);
    }
    if (!answer.ok) {
      const error = said.error || {};
      throw new Error([error.code, error.message, error.remedy].filter(Boolean).join(" · "));
    }
    return said;
  };

  function words(action, said) {
    if (action === "verify") return said.verified.map((one) => `${one.name}: ${one.verdict}${one.reason ? ", " + one.reason : ""}`).join("\n");
    const moved = said.reports.filter((one) => one.mode !== "skip");
    if (!moved.length) return "Everything was fresh.";
    return moved.slice(0, 4).map((one) => `${one.name}: ${one.mode}, +${one.inserted} −${one.deleted}, ${one.seconds.toFixed(2)} s`).join(" · ");
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-action]");
    if (!button) return;
    const action = button.dataset.action;
    button.disabled = true;
    window.nablaToast(action === "refresh" ? "Refreshing …" : "Verifying …");
    try {
      const said = await window.nablaAsk(action, { names: button.dataset.names ? [button.dataset.names] : [] });
      window.nablaToast(words(action, said));
      update();
    } catch (error) {
      window.nablaToast(error.message);
    } finally {
      button.disabled = false;
    }
  });
  listen();
})();
