// Two pictures on canvases: kernels over time, and tokens a second. Tables beside them say the same in text.
"use strict";

const LANE_PX = 34;
const AXIS_PX = 18;

// Give a canvas the resolution of the screen; return its context and its size in CSS pixels.
function prepared(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { context, width, height };
}

class Colours {
  constructor() {
    this.read();
  }

  // Called when the theme changes: reading styles for each frame would be slow.
  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["text", "quiet", "line", "reactive", "proactive"]) {
      this[name] = style.getPropertyValue(`--${name}`).trim();
    }
  }
}

class Timeline {
  constructor(canvas, colours) {
    this.canvas = canvas;
    this.colours = colours;
    this.seconds = 10;
  }

  draw(state, now) {
    const lanes = [...state.lanes.values()];
    const height = Math.max(1, lanes.length) * LANE_PX + AXIS_PX;
    const { context, width } = prepared(this.canvas, height);
    const from = now - this.seconds;
    const scale = width / this.seconds;
    lanes.forEach((lane, place) => this.drawLane(context, lane, place * LANE_PX, from, now, scale));
    this.drawAxis(context, height - AXIS_PX, width);
  }

  drawLane(context, lane, top, from, to, scale) {
    let [lastX, lastKind] = [Infinity, null];
    for (let place = lane.bars.length - 1; place >= 0; place -= 1) {
      const bar = lane.bars[place];
      if (bar.end < from) break;
      if (bar.start > to) continue;
      const x = (bar.start - from) * scale;
      const width = Math.max(1, (Math.min(bar.end, to) - bar.start) * scale);
      // Bars of one kind within one pixel are drawn once, however many there are.
      if (bar.reactive === lastKind && x + width <= lastX + 1 && x >= lastX) continue;
      [lastX, lastKind] = [Math.floor(x), bar.reactive];
      context.globalAlpha = bar.stage === "prefill" ? 1 : 0.7;
      context.fillStyle = bar.reactive ? this.colours.reactive : this.colours.proactive;
      const high = bar.reactive ? LANE_PX - 16 : (LANE_PX - 16) / 2;
      context.fillRect(x, top + LANE_PX - 2 - high, width, high);
    }
    context.globalAlpha = 1;
    context.fillStyle = this.colours.text;
    context.fillText(lane.name, 4, top + 11);
    context.fillStyle = this.colours.line;
    context.fillRect(0, top + LANE_PX - 1, this.canvas.clientWidth, 1);
  }

  drawAxis(context, top, width) {
    context.fillStyle = this.colours.quiet;
    const marks = 5;
    for (let mark = 0; mark <= marks; mark += 1) {
      const ago = (this.seconds * (marks - mark)) / marks;
      context.textAlign = mark === 0 ? "left" : mark === marks ? "right" : "center";
      context.fillText(ago ? `−${+ago.toFixed(1)} s` : "now", (width * mark) / marks, top + 13);
    }
    context.textAlign = "left";
  }
}

function drawRates(canvas, colours, state) {
  const { context, width, height } = prepared(canvas, 100);
  const [span, top] = [120, Math.max(10, ...state.rates.map((each) => each.rate))];
  context.strokeStyle = colours.proactive;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const { t, rate } of state.rates) {
    context.lineTo(width * (1 - (state.t - t) / span), height - 3 - (rate / top) * (height - 20));
  }
  context.stroke();
  context.fillStyle = colours.quiet;
  context.fillText(`${Math.round(top).toLocaleString()} tokens a second`, 4, 12);
}
