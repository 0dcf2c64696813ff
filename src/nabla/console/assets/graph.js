// The graph of the lake: drawing, search, selection, focus, keyboard. All texts are set as text, never as markup.
"use strict";
(function () {
  const SVG = "http://www.w3.org/2000/svg";
  const { layout, WIDTH, HEIGHT } = window.NablaLayout;
  const KINDS = { table: "▤", registered: "▥", view: "◇", rule: "↻", constraint: "⊨" };
  const holder = document.getElementById("graph");
  const panel = document.getElementById("panel");
  const search = document.getElementById("search");
  let data, shown, drawn, viewport, svg, layer, selected = null, focused = null, running = new Set();

  function element(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function html(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  const cut = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");
  const number = (value) => (value === null ? "–" : value.toLocaleString("en"));
  function seconds(value) {
    if (value === null || value === undefined) return "–";
    return value < 1 ? `${Math.round(value * 1000)} ms` : value < 60 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
  }
  function age(at) {
    if (!at) return "never";
    let past = Math.max(0, Date.now() / 1000 - at);
    for (const [step, unit] of [[60, "s"], [60, "min"], [24, "h"], [7, "d"], [52, "w"]]) {
      if (past < step) return `${Math.floor(past)} ${unit}`;
      past /= step;
    }
    return `${Math.floor(past)} y`;
  }
  function cost(node) {
    if (!node.mode) return node.when;
    const against = node.recompute && node.mode === "incremental" ? ` vs ${seconds(node.recompute)}` : "";
    return `${node.mode} ${seconds(node.seconds)}${against}`;
  }

  // The names that a node is computed from, or that are computed from it, itself among them.
  function reach(name, from, to) {
    const found = new Set([name]), waiting = [name];
    while (waiting.length) {
      const at = waiting.pop();
      for (const edge of data.edges) {
        if (edge[from] === at && !found.has(edge[to])) {
          found.add(edge[to]);
          waiting.push(edge[to]);
        }
      }
    }
    return found;
  }
  const related = (name) => new Set([...reach(name, "to", "from"), ...reach(name, "from", "to")]);

  function draw(keep) {
    const among = focused ? related(focused) : null;
    shown = data.nodes.filter((node) => !among || among.has(node.name));
    drawn = layout(shown, data.edges);
    const most = Math.max(1, ...data.edges.map((edge) => edge.rows));
    layer.replaceChildren();
    const lines = element("g"), boxes = element("g");
    for (const { edge, d } of drawn.lines) {
      const width = edge.rows ? 1.4 + 5.5 * Math.log1p(edge.rows) / Math.log1p(most) : 1;
      const line = element("path", { class: "edge", d, "stroke-width": width.toFixed(1) });
      line.append(element("title", {}, `${edge.from} → ${edge.to}: ${number(edge.rows)} rows changed last`));
      line.nabla = edge;
      lines.append(line);
    }
    for (const node of shown) boxes.append(box(node));
    layer.append(lines, boxes);
    if (!keep) fit();
    mark();
    performance.mark("nabla-graph-drawn");
    document.body.dataset.graph = String(shown.length);
  }

  const fit = () => viewport.fit(drawn.width, drawn.height, holder.clientWidth < 600 ? 0.5 : 0.44);

  function box(node) {
    const { x, y } = drawn.places.get(node.name);
    const label = `${node.kind} ${node.name}, ${node.state}, ${number(node.rows)} rows, changed ${age(node.updated)} ago, ${cost(node)}`;
    const made = element("g", { class: `node f-${node.freshness}`, transform: `translate(${x} ${y})`, tabindex: "-1", role: "link", "aria-label": label });
    made.append(
      element("rect", { class: "box", width: WIDTH, height: HEIGHT, rx: 11 }),
      element("rect", { class: "mark", x: 0.6, y: 12, width: 4, height: HEIGHT - 24, rx: 2 }),
      element("text", { class: "name", x: 16, y: 21 }, `${KINDS[node.kind] || ""} ${cut(node.name, 23)}`),
      element("text", { class: "line", x: 16, y: 37 }, `${number(node.rows)} rows · v${node.version} · ${age(node.updated)}`),
      element("text", { class: "line", x: 16, y: 52 }, cut(cost(node) || "", 34)),
      element("text", { class: "far", x: 14, y: 39 }, cut(node.name, 13)),
    );
    made.append(element("title", {}, label));
    made.nabla = node;
    return made;
  }

  const nodes = () => [...layer.querySelectorAll(".node")];
  const of = (name) => nodes().find((one) => one.nabla.name === name);

  // Classes of what is selected, found and running.
  function mark() {
    const words = search.value.trim().toLowerCase();
    const hits = new Set(words ? shown.filter((n) => n.name.toLowerCase().includes(words) || n.program.toLowerCase().includes(words)).map((n) => n.name) : []);
    const near = selected ? related(selected) : null;
    const first = nodes()[0];
    let reachable = null;
    for (const one of nodes()) {
      const name = one.nabla.name;
      one.classList.toggle("selected", name === selected);
      one.classList.toggle("hit", hits.has(name));
      one.classList.toggle("running", running.has(name));
      one.classList.toggle("dim", words ? !hits.has(name) : Boolean(near) && !near.has(name));
      one.setAttribute("tabindex", "-1");
      if (name === selected) reachable = one;
    }
    (reachable || (hits.size && of([...hits][0])) || first)?.setAttribute("tabindex", "0");
    for (const line of layer.querySelectorAll(".edge")) {
      const inside = near && near.has(line.nabla.from) && near.has(line.nabla.to);
      line.classList.toggle("near", Boolean(inside) && !words);
      line.classList.toggle("dim", words ? !(hits.has(line.nabla.from) && hits.has(line.nabla.to)) : Boolean(near) && !inside);
    }
    document.getElementById("hits").textContent = words ? `${hits.size} found` : "";
    for (const row of document.querySelectorAll("#objects tbody tr")) {
      row.hidden = Boolean(words) && !row.textContent.toLowerCase().includes(words);
    }
    return hits;
  }

  function select(name, reveal) {
    selected = name;
    mark();
    showPanel();
    if (name && reveal) {
      const { x, y } = drawn.places.get(name);
      viewport.reveal(x, y, WIDTH, HEIGHT);
    }
  }

  function showPanel() {
    const node = data.nodes.find((one) => one.name === selected);
    panel.hidden = !node;
    if (!node) return;
    const facts = html("dl");
    const say = (term, value) => { if (value) facts.append(html("dt", {}, term), html("dd", {}, value)); };
    say("rows", number(node.rows));
    say("version", String(node.version));
    say("changed", node.updated ? `${age(node.updated)} ago` : "never");
    say("last change", node.inserted + node.deleted ? `+${number(node.inserted)} −${number(node.deleted)}` : "");
    say("last refresh", node.mode ? `${node.mode}, ${seconds(node.seconds)}` : "");
    say("recompute", node.recompute ? seconds(node.recompute) : "");
    say(node.kind === "constraint" ? "when violated" : "follows", node.when);
    const close = html("button", { type: "button", class: "quiet close", "aria-label": "Close" }, "✕");
    close.addEventListener("click", () => { const was = of(selected); select(null); was?.focus(); });
    const only = html("button", { type: "button", id: "focus-button" }, focused ? "Show all" : "Focus");
    only.addEventListener("click", () => toggleFocus(node.name));
    const open = html("a", { href: node.href }, "Open");
    const badge = html("span", { class: `badge f-${node.freshness}` }, node.state);
    panel.replaceChildren(close, html("h2", {}, node.name), badge, html("span", { class: "muted" }, ` ${node.kind}${node.program ? " of " + node.program : ""}`), facts);
    if (node.problem || node.obstacles.length) panel.append(html("p", { class: "why" }, node.problem || node.obstacles[0]));
    panel.append(html("div", { class: "tools" }, open, only));
  }

  function toggleFocus(name) {
    focused = focused ? null : name;
    draw(false);
    if (selected && !drawn.places.has(selected)) selected = null;
    if (selected && !focused) {
      const { x, y } = drawn.places.get(selected);
      viewport.center(x + WIDTH / 2, y + HEIGHT / 2, 0.7);
    }
    select(selected);
    (of(selected) || nodes()[0])?.focus();
  }

  // The next node in a direction: along edges to the left and right, within a layer up and down.
  function neighbour(name, key) {
    const place = drawn.places.get(name);
    const nearest = (names) => names.sort((a, b) => Math.abs(drawn.places.get(a).y - place.y) - Math.abs(drawn.places.get(b).y - place.y))[0];
    if (key === "ArrowRight") return nearest(data.edges.filter((e) => e.from === name && drawn.places.has(e.to)).map((e) => e.to));
    if (key === "ArrowLeft") return nearest(data.edges.filter((e) => e.to === name && drawn.places.has(e.from)).map((e) => e.from));
    const layerOf = drawn.layers[place.layer];
    return layerOf[layerOf.indexOf(name) + (key === "ArrowDown" ? 1 : -1)];
  }

  function onKey(event) {
    const node = event.target.closest?.(".node")?.nabla;
    if (event.key.startsWith("Arrow") && node) {
      const next = neighbour(node.name, event.key);
      if (next) {
        select(next, true);
        of(next).focus({ preventScroll: true });
      }
    } else if (event.key === "Enter" && node) location.href = node.href;
    else if ((event.key === "f" || event.key === "F" || event.key === " ") && node) {
      selected = node.name;
      toggleFocus(node.name);
    } else if (event.key === "+" || event.key === "=") viewport.zoom(1.25);
    else if (event.key === "-") viewport.zoom(0.8);
    else if (event.key === "0") viewport.fit(drawn.width, drawn.height, 0.06);
    else if (event.key === "Escape") focused ? toggleFocus(focused) : select(null);
    else return;
    event.preventDefault();
  }

  function begin() {
    data = JSON.parse(document.getElementById("data").textContent);
    svg = element("svg", { role: "presentation" });
    layer = element("g");
    svg.append(layer);
    holder.append(svg);
    viewport = new window.NablaViewport(svg, layer);
    holder.addEventListener("keydown", onKey);
    svg.addEventListener("click", (event) => {
      if (viewport.moved >= 4) return;
      const node = event.target.closest(".node");
      select(node ? node.nabla.name : null);
      node?.focus({ preventScroll: true });
    });
    svg.addEventListener("focusin", (event) => {
      const node = event.target.closest(".node");
      if (node && event.target.matches(":focus-visible") && selected !== node.nabla.name) select(node.nabla.name, true);
    });
    svg.addEventListener("dblclick", (event) => {
      const node = event.target.closest(".node");
      if (node) location.href = node.nabla.href;
    });
    search.addEventListener("input", () => {
      const hits = [...mark()];
      if (hits.length) {
        const { x, y } = drawn.places.get(hits[0]);
        viewport.center(x + WIDTH / 2, y + HEIGHT / 2, 0.6);
      }
    });
    search.addEventListener("keydown", (event) => {
      const hits = [...mark()];
      if (event.key === "Enter" && hits.length) {
        search.value = "";
        select(hits[0], true);
        if (!holder.closest("[hidden]")) of(hits[0]).focus();
      } else if (event.key === "Escape") {
        search.value = "";
        mark();
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.closest("input, textarea, select")) {
        event.preventDefault();
        search.focus();
      }
    });
    document.getElementById("zoom-in").addEventListener("click", () => viewport.zoom(1.3));
    document.getElementById("zoom-out").addEventListener("click", () => viewport.zoom(1 / 1.3));
    document.getElementById("zoom-fit").addEventListener("click", () => viewport.fit(drawn.width, drawn.height, 0.06));
    document.addEventListener("nabla:updated", () => {
      data = JSON.parse(document.getElementById("data").textContent);
      if (focused && !data.nodes.some((n) => n.name === focused)) focused = null;
      if (selected && !data.nodes.some((n) => n.name === selected)) selected = null;
      const active = document.activeElement?.closest?.(".node")?.nabla.name;
      draw(true);
      if (selected) showPanel();
      if (active) of(active)?.focus({ preventScroll: true });
    });
    document.addEventListener("nabla:running", (event) => {
      running = new Set(event.detail.flatMap((run) => Object.values(run.views).filter((v) => v.state === "running").map((v) => v.name)));
      mark();
    });
    tabs();
    draw(false);
    new ResizeObserver(() => { if (!viewport.touched && holder.clientWidth) fit(); }).observe(holder);
  }

  function tabs() {
    const all = [...document.querySelectorAll(".tabs [role=tab]")];
    const show = (tab) => {
      for (const one of all) {
        one.setAttribute("aria-selected", String(one === tab));
        one.tabIndex = one === tab ? 0 : -1;
        document.getElementById(one.getAttribute("aria-controls")).hidden = one !== tab;
      }
      history.replaceState(null, "", tab.id === "tab-list" ? "#list" : location.pathname + location.search);
    };
    for (const tab of all) {
      tab.addEventListener("click", () => show(tab));
      tab.addEventListener("keydown", (event) => {
        if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
          const next = all[(all.indexOf(tab) + 1) % all.length];
          show(next);
          next.focus();
        }
      });
    }
    const follow = () => { if (location.hash === "#list") show(all[1]); };
    window.addEventListener("hashchange", follow);
    follow();
  }

  begin();
})();
