// Two pictures on canvases: kernels over time, and tokens a second. Tables beside them say the same in text.
"use strict";

const LANE_PX = 34;
const TILE_PX = 512;
const MOST_TILES = 1000; // of one film: browsers place nothing millions of pixels away
const RATES_PX = 100;
const RATES_S = 120;

// Give a canvas the resolution of the screen; return its context, whose unit is a CSS pixel.
function prepared(canvas, width, height) {
  const ratio = devicePixelRatio;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Call back with the width of an element now and whenever it changes: to ask for it has the page laid out.
function watchWidth(element, changed) {
  new ResizeObserver(([{ contentRect }]) => changed(contentRect.width)).observe(element);
}

class Colours {
  constructor() {
    this.read();
  }

  // Called when the theme changes: reading styles for each frame would be slow.
  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["quiet", "line", "reactive", "proactive"]) {
      this[name] = style.getPropertyValue(`--${name}`).trim();
    }
  }
}

// Kernels over time, on tiles that lie beside each other like a film. What has come is drawn once, into the tiles
// that it touches; each picture only moves the film, which costs neither script nor paint worth speaking of.
class Timeline {
  constructor(element, colours) {
    this.film = element.querySelector(".film");
    this.names = element.querySelector(".names");
    this.marks = [...element.querySelector(".axis").children];
    this.marks.forEach((mark, place) => {
      if (place < this.marks.length - 1) mark.style.left = `${(100 * place) / (this.marks.length - 1)}%`;
    });
    this.colours = colours;
    this.seconds = 10;
    this.width = 0;
    this.lanes = [];
    watchWidth(element, (width) => {
      this.width = width;
      this.reset();
    });
  }

  // Show so many seconds.
  show(seconds) {
    this.seconds = seconds;
    this.marks.forEach((mark, place) => {
      const ago = seconds * (1 - place / (this.marks.length - 1));
      setText(mark, ago ? `−${+ago.toFixed(1)} s` : "now");
    });
    this.reset();
  }

  // Draw everything anew with the next picture.
  reset() {
    this.stale = true;
  }

  draw(state, now) {
    if (!this.width) return;
    const lanes = [...state.lanes.values()];
    if (this.stale || !this.fits(lanes, now)) this.begin(lanes, now);
    const right = (now - this.origin) * this.scale;
    this.drawNew();
    this.drawUpTo(Math.floor(right / TILE_PX) + 1);
    const left = Math.round((this.width - right) * this.ratio) / this.ratio;
    this.film.style.transform = `translateX(${left}px)`;
  }

  // Whether the tiles are of these lanes, and one of them is where the picture of this time begins.
  fits(lanes, now) {
    const first = this.tileAt(now - this.seconds);
    return this.ratio === devicePixelRatio && lanes.length === this.lanes.length
      && lanes.every((lane, place) => lane === this.lanes[place])
      && first > this.drawnTo - this.film.children.length && first < MOST_TILES;
  }

  begin(lanes, now) {
    this.stale = false;
    this.lanes = lanes;
    this.scale = this.width / this.seconds;
    this.origin = now - this.seconds - TILE_PX / this.scale; // one more, so that it can go back a little
    this.ratio = devicePixelRatio;
    this.drawnTo = -1; // the last tile that has been drawn; the first one of the film is 0
    this.seen = lanes.map((lane) => lane.added);
    this.height = Math.max(1, lanes.length) * LANE_PX;
    this.film.style.height = `${this.height}px`;
    const tiles = Array.from({ length: Math.ceil(this.width / TILE_PX) + 2 }, newTile);
    this.film.replaceChildren(...tiles);
    this.names.replaceChildren(...lanes.map(nameOf));
  }

  // Draw the tiles that bars have been added to since the last picture.
  drawNew() {
    let [from, to] = [Infinity, -Infinity];
    this.lanes.forEach((lane, place) => {
      const first = Math.max(0, lane.bars.length - (lane.added - this.seen[place]));
      for (const bar of lane.bars.slice(first)) [from, to] = [Math.min(from, bar.start), Math.max(to, bar.end)];
      this.seen[place] = lane.added;
    });
    const oldest = Math.max(this.drawnTo - this.film.children.length + 1, this.tileAt(from));
    for (let tile = oldest; tile <= Math.min(this.drawnTo, this.tileAt(to)); tile += 1) this.drawTile(tile);
  }

  // Draw the tiles that come into view next.
  drawUpTo(last) {
    const first = Math.max(this.drawnTo + 1, last - this.film.children.length + 1);
    for (let tile = first; tile <= last; tile += 1) this.drawTile(tile);
    this.drawnTo = Math.max(this.drawnTo, last);
  }

  tileAt(t) {
    return Math.floor(((t - this.origin) * this.scale) / TILE_PX);
  }

  drawTile(tile) {
    const canvas = this.film.children[tile % this.film.children.length];
    if (canvas.tile !== tile) canvas.style.left = `${tile * TILE_PX}px`;
    canvas.tile = tile;
    const context = prepared(canvas, TILE_PX, this.height);
    const from = this.origin + (tile * TILE_PX) / this.scale;
    this.lanes.forEach((lane, place) => this.drawLane(context, lane, place * LANE_PX, from));
  }

  drawLane(context, lane, top, from) {
    const to = from + TILE_PX / this.scale;
    let [lastX, lastKind] = [Infinity, null];
    for (let place = lane.bars.length - 1; place >= 0; place -= 1) {
      const bar = lane.bars[place];
      if (bar.end < from) break;
      if (bar.start > to) continue;
      const x = (bar.start - from) * this.scale;
      const width = Math.max(1, (bar.end - bar.start) * this.scale);
      // Bars of one kind within one pixel are drawn once, however many there are.
      if (bar.reactive === lastKind && x + width <= lastX + 1 && x >= lastX) continue;
      [lastX, lastKind] = [Math.floor(x), bar.reactive];
      context.globalAlpha = bar.stage === "prefill" ? 1 : 0.7;
      context.fillStyle = bar.reactive ? this.colours.reactive : this.colours.proactive;
      const high = bar.reactive ? LANE_PX - 16 : (LANE_PX - 16) / 2;
      context.fillRect(x, top + LANE_PX - 2 - high, width, high);
    }
    context.globalAlpha = 1;
    context.fillStyle = this.colours.line;
    context.fillRect(0, top + LANE_PX - 1, TILE_PX, 1);
  }
}

function newTile() {
  const canvas = document.createElement("canvas");
  canvas.style.width = `${TILE_PX}px`;
  return canvas;
}

function nameOf(lane, place) {
  const name = document.createElement("span");
  name.style.top = `${place * LANE_PX}px`;
  name.textContent = lane.name;
  return name;
}

// Tokens a second.
class Rates {
  constructor(canvas, colours) {
    this.canvas = canvas;
    this.colours = colours;
    this.width = 0;
    watchWidth(canvas, (width) => {
      this.width = width;
    });
  }

  draw(state) {
    const context = prepared(this.canvas, this.width, RATES_PX);
    const top = Math.max(10, ...state.rates.map((each) => each.rate));
    context.strokeStyle = this.colours.proactive;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const { t, rate } of state.rates) {
      context.lineTo(this.width * (1 - (state.t - t) / RATES_S), RATES_PX - 3 - (rate / top) * (RATES_PX - 20));
    }
    context.stroke();
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = this.colours.quiet;
    context.fillText(`${Math.round(top).toLocaleString()} tokens a second`, 4, 12);
  }
}
