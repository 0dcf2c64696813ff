// A layered layout: sources at the left, readers to their right. Long edges pass through places of their own in every layer that
// they cross, so that they go around boxes.
"use strict";
window.NablaLayout = (function () {
  const WIDTH = 208, HEIGHT = 62, GAP_Y = 18, THIN = 6;

  function depths(names, sources) {
    const depth = new Map();
    function visit(name, path) {
      if (depth.has(name)) return depth.get(name);
      if (path.has(name)) return 0;
      path.add(name);
      let deepest = -1;
      for (const source of sources.get(name)) deepest = Math.max(deepest, visit(source, path));
      path.delete(name);
      depth.set(name, deepest + 1);
      return deepest + 1;
    }
    for (const name of names) visit(name, new Set());
    return depth;
  }

  // Order each layer by the middle of its neighbours, some times from left to right and back, which removes most crossings.
  function order(layers, before, after) {
    const place = new Map();
    const note = (layer) => layer.forEach((item, i) => place.set(item, i));
    layers.forEach(note);
    const middle = (item, near) => {
      const found = (near.get(item) || []).map((other) => place.get(other));
      return found.length ? found.reduce((a, b) => a + b, 0) / found.length : place.get(item);
    };
    for (let round = 0; round < 8; round++) {
      const forward = round % 2 === 0;
      for (const layer of forward ? layers : layers.slice().reverse()) {
        const wanted = new Map(layer.map((item) => [item, middle(item, forward ? before : after)]));
        layer.sort((a, b) => wanted.get(a) - wanted.get(b) || place.get(a) - place.get(b));
        note(layer);
      }
    }
  }

  // Places as near to the wanted ones as their order and sizes allow: neighbours that overlap move together as a block.
  function settle(layer, wanted, height) {
    const offset = [];
    const gap = (a, b) => (height(a) === THIN && height(b) === THIN ? 2 : height(a) === height(b) ? GAP_Y : GAP_Y / 2);
    let sum = 0;
    layer.forEach((item, i) => {
      if (i) sum += (height(layer[i - 1]) + height(item)) / 2 + gap(layer[i - 1], item);
      offset.push(sum);
    });
    const blocks = [];
    layer.forEach((item, i) => {
      blocks.push({ total: wanted.get(item) - offset[i], count: 1 });
      while (blocks.length > 1) {
        const last = blocks[blocks.length - 1], previous = blocks[blocks.length - 2];
        if (previous.total / previous.count <= last.total / last.count) break;
        blocks.pop();
        previous.total += last.total;
        previous.count += last.count;
      }
    });
    const placed = new Map();
    let i = 0;
    for (const block of blocks) {
      for (let k = 0; k < block.count; k++, i++) placed.set(layer[i], block.total / block.count + offset[i]);
    }
    return placed;
  }

  function layout(nodes, edges) {
    const names = nodes.map((node) => node.name);
    const known = new Set(names);
    const kept = edges.filter((edge) => known.has(edge.from) && known.has(edge.to));
    const sources = new Map(names.map((name) => [name, []]));
    kept.forEach((edge) => sources.get(edge.to).push(edge.from));
    const depth = depths(names, sources);
    const readers = new Map(names.map((name) => [name, []]));
    kept.forEach((edge) => readers.get(edge.from).push(edge.to));
    for (const name of names) { // a table stands just before its first reader
      if (!sources.get(name).length && readers.get(name).length) {
        depth.set(name, Math.max(0, Math.min(...readers.get(name).map((reader) => depth.get(reader))) - 1));
      }
    }
    const layers = [];
    const put = (item, at) => { (layers[at] = layers[at] || []).push(item); };
    names.forEach((name) => put(name, depth.get(name)));
    const before = new Map(), after = new Map(), paths = [];
    const join = (a, b) => {
      (after.get(a) || after.set(a, []).get(a)).push(b);
      (before.get(b) || before.set(b, []).get(b)).push(a);
    };
    kept.forEach((edge, number) => {
      const path = [edge.from];
      for (let at = depth.get(edge.from) + 1; at < depth.get(edge.to); at++) {
        const thin = `\u0000${number}.${at}`;
        put(thin, at);
        path.push(thin);
      }
      path.push(edge.to);
      for (let i = 1; i < path.length; i++) join(path[i - 1], path[i]);
      paths.push({ edge, path });
    });
    for (let i = 0; i < layers.length; i++) layers[i] = layers[i] || [];
    order(layers, before, after);
    const step = WIDTH + 96 + Math.min(150, 3 * Math.max(0, ...layers.map((layer) => layer.length - 10))); // many lines need room
    const height = (item) => (known.has(item) ? HEIGHT : THIN);
    const y = new Map();
    for (const layer of layers) {
      const start = new Map(layer.map((item, i) => [item, i * (HEIGHT + GAP_Y)]));
      settle(layer, start, height).forEach((at, item) => y.set(item, at));
    }
    for (let round = 0; round < 10; round++) {
      const forward = round % 2 === 0;
      for (const layer of forward ? layers : layers.slice().reverse()) {
        const wanted = new Map(layer.map((item) => {
          const near = [...(before.get(item) || []), ...(round > 1 ? after.get(item) || [] : [])];
          const mean = near.length ? near.reduce((sum, other) => sum + y.get(other), 0) / near.length : y.get(item);
          return [item, mean];
        }));
        settle(layer, wanted, height).forEach((at, item) => y.set(item, at));
      }
    }
    const top = Math.min(0, ...y.values());
    const places = new Map(names.map((name) => [
      name, { x: depth.get(name) * step, y: y.get(name) - top, layer: depth.get(name) },
    ]));
    const lines = paths.map(({ edge, path }) => {
      const points = path.map((item, i) => ({ x: (depth.get(edge.from) + i) * step, y: y.get(item) - top + HEIGHT / 2 }));
      return { edge, d: curve(points) };
    });
    let bottom = 0;
    places.forEach((place) => { bottom = Math.max(bottom, place.y + HEIGHT); });
    return { places, lines, layers: layers.map((l) => l.filter((item) => known.has(item))), width: (layers.length - 1) * step + WIDTH, height: bottom };
  }

  function curve(points) {
    let d = `M${points[0].x + WIDTH} ${points[0].y}`;
    for (let i = 1; i < points.length; i++) {
      const from = points[i - 1], to = points[i];
      const start = from.x + WIDTH, end = to.x, middle = (start + end) / 2;
      d += `C${middle} ${from.y} ${middle} ${to.y} ${end} ${to.y}`;
      if (i < points.length - 1) d += `h${WIDTH}`;
    }
    return d;
  }

  return { layout, WIDTH, HEIGHT };
})();
