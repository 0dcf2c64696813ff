// Zoom and pan of a drawing: wheel, drag, pinch, buttons. Only one transform changes, so that hundreds of boxes move smoothly.
"use strict";
window.NablaViewport = class {
  constructor(svg, layer) {
    this.svg = svg;
    this.layer = layer;
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.pointers = new Map();
    this.moved = 0;
    this.touched = false; // whether the reader has moved it, so that it must stay
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, (event) => this.up(event));
  }

  apply() {
    this.layer.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.scale})`);
    this.svg.classList.toggle("distant", this.scale < 0.52);
    this.svg.classList.toggle("tiny", this.scale < 0.2);
  }

  zoom(factor, x, y) {
    this.touched = true;
    const box = this.svg.getBoundingClientRect();
    const at = { x: x === undefined ? box.width / 2 : x - box.left, y: y === undefined ? box.height / 2 : y - box.top };
    const scale = Math.min(2.5, Math.max(0.06, this.scale * factor));
    this.x = at.x - ((at.x - this.x) * scale) / this.scale;
    this.y = at.y - ((at.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  wheel(event) {
    event.preventDefault();
    this.touched = true;
    if (event.ctrlKey || event.metaKey) {
      this.zoom(Math.exp(-event.deltaY * 0.01), event.clientX, event.clientY);
    } else {
      this.x -= event.shiftKey ? event.deltaY : event.deltaX;
      this.y -= event.shiftKey ? 0 : event.deltaY;
      this.apply();
    }
  }

  down(event) {
    this.pointers.set(event.pointerId, event);
    if (this.pointers.size === 1) this.moved = 0;
  }

  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const dx = event.clientX - last.clientX, dy = event.clientY - last.clientY;
    if (this.pointers.size === 1) {
      this.moved += Math.abs(dx) + Math.abs(dy);
      if (this.moved < 4) return;
      if (!this.svg.hasPointerCapture(event.pointerId)) this.svg.setPointerCapture(event.pointerId);
      this.svg.classList.add("moving");
      this.touched = true;
      this.x += dx;
      this.y += dy;
      this.apply();
    } else if (this.pointers.size === 2) {
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const far = (p) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY) || 1;
      this.moved += 10;
      this.zoom(far(event) / far(last), (event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2);
    }
    this.pointers.set(event.pointerId, event);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    if (!this.pointers.size) this.svg.classList.remove("moving");
  }

  // Show a drawing of a size. One that would become unreadable begins at its left edge instead.
  fit(width, height, smallest) {
    this.touched = false;
    const box = this.svg.getBoundingClientRect();
    const margin = 36;
    const whole = Math.min((box.width - 2 * margin) / width, (box.height - 2 * margin) / height, 1.15);
    this.scale = Math.max(whole, smallest);
    this.x = whole >= smallest || width * this.scale < box.width - 2 * margin ? (box.width - width * this.scale) / 2 : margin;
    this.y = height * this.scale < box.height - 2 * margin ? (box.height - height * this.scale) / 2 : margin;
    this.apply();
  }

  center(x, y, smallest) {
    this.touched = true;
    const box = this.svg.getBoundingClientRect();
    this.scale = Math.max(this.scale, smallest);
    this.x = box.width / 2 - x * this.scale;
    this.y = box.height / 2 - y * this.scale;
    this.apply();
  }

  // Move just as far as needed for a box to be seen.
  reveal(x, y, width, height) {
    this.touched = true;
    const box = this.svg.getBoundingClientRect();
    const margin = 30;
    const left = x * this.scale + this.x, top = y * this.scale + this.y;
    this.x += Math.max(0, margin - left) - Math.max(0, left + width * this.scale - (box.width - margin));
    this.y += Math.max(0, margin - top) - Math.max(0, top + height * this.scale - (box.height - margin));
    this.apply();
  }
};
