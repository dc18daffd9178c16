// What the page knows: built from frames, whether they come from a server or from a recording.
// Everything that grows has a limit, so that a page can stay open.
"use strict";

const LIMITS = {
  lanes: 16,
  kernels: 20000, // of each lane
  kernelSeconds: 120,
  ended: 12,
  tools: 50,
  rates: 600,
  speculated: 12,
};

const number = (value) => (Number.isFinite(value) ? value : 0);
const list = (value) => (Array.isArray(value) ? value : []);
const records = (value) => list(value).filter((each) => each !== null && typeof each === "object");
const text = (value) => (value === null || value === undefined ? "" : String(value));

class Lane {
  constructor(name) {
    this.name = name;
    this.bars = []; // in the order in which they ended
    this.added = 0; // bars so far
  }

  add(row) {
    const [, start, seconds, stage, reactive, kernels, request, others] = row;
    this.bars.push({
      start: number(start),
      end: number(start) + number(seconds),
      stage: ["prefill", "decode", "mixed"][stage] ?? text(stage),
      reactive: Boolean(reactive),
      kernels: Math.max(1, number(kernels)),
      request: text(request),
      others: number(others),
    });
    this.added += 1;
  }

  // Return at most so many of the bars that had ended at a time, the newest first.
  newest(most, at) {
    const found = [];
    for (let place = this.bars.length - 1; place >= 0 && found.length < most; place -= 1) {
      if (this.bars[place].end <= at) found.push(this.bars[place]);
    }
    return found;
  }

  // Return the time since which all bars are kept, as far as their number has it.
  prune(before) {
    let drop = Math.max(0, this.bars.length - LIMITS.kernels);
    while (drop < this.bars.length && this.bars[drop].end < before) drop += 1;
    // Seldom, since it moves all that stay.
    if (drop <= 1000 && drop < this.bars.length) return -Infinity;
    return this.bars.splice(0, drop).at(-1)?.end ?? -Infinity;
  }
}

// Return the newest of each app, at most so many together, so that no app leaves less to others than it has.
// The newest is the first, here and there.
function newestOfEachApp(rows, most) {
  if (rows.length <= most) return rows;
  const places = new Map();
  const ranked = rows.map((row, age) => {
    const place = places.get(row.app) ?? 0;
    places.set(row.app, place + 1);
    return { row, age, place };
  });
  const kept = ranked.sort((one, other) => one.place - other.place || one.age - other.age).slice(0, most);
  return kept.sort((one, other) => one.age - other.age).map((each) => each.row);
}

class LiveState {
  constructor() {
    this.clear();
  }

  clear() {
    this.t = null; // of the newest frame, in seconds on the server's clock
    this.n = null;
    this.step = 0; // seconds between the two newest frames
    this.served = null; // t of the newest frame that has models, which are those shown
    this.seen = []; // times from and to which every frame has come; the newest are the last
    this.missed = 0; // frames that the server left out because this page was slow
    this.models = [];
    this.lanes = new Map();
    this.ended = [];
    this.tools = new Map();
    this.rates = [];
    this.background = null;
    this.speculation = null;
    this.speculated = [];
    this.events = 0;
    this.counted = null;
  }

  apply(frame) {
    const t = number(frame.t);
    if (this.t !== null && t < this.t) this.clear(); // the server was started again
    const follows = this.n !== null && frame.n === this.n + 1;
    if (this.n !== null && frame.n > this.n + 1) this.missed += frame.n - this.n - 1;
    this.step = this.t === null ? 0 : t - this.t;
    this.n = number(frame.n);
    this.t = t;
    if (frame.background) this.background = frame.background;
    if (frame.speculation) this.applySpeculation(frame.speculation);
    const models = records(frame.models);
    if (!models.length && this.models.length) return; // what was there last stays
    this.served = t;
    this.models = models;
    for (const model of this.models) this.applyModel(model);
    this.see(t, follows);
    const kept = [...this.lanes.values()].map((lane) => lane.prune(t - LIMITS.kernelSeconds));
    this.forget(Math.max(t - LIMITS.kernelSeconds, ...kept));
    this.measureRate(t);
  }

  // A frame tells what has happened since the one before it, and of the time before that nothing.
  see(t, follows) {
    if (follows && this.seen.length) this.seen.at(-1).to = t;
    else this.seen.push({ from: t, to: t });
  }

  // Nothing happened between the newest frame and this time.
  seeNothingUntil(t) {
    const newest = this.seen.at(-1);
    if (newest) newest.to = Math.max(newest.to, t);
  }

  forget(before) {
    this.seen = this.seen.filter((span) => span.to >= before);
    if (this.seen.length) this.seen[0].from = Math.max(this.seen[0].from, before);
  }

  applyModel(model) {
    const xpus = list(model.xpus);
    for (const row of list(model.kernels).filter(Array.isArray)) {
      const name = text(xpus[row[0]] ?? row[0]);
      const key = `${text(model.name)}\n${name}`;
      if (!this.lanes.has(key)) {
        if (this.lanes.size >= LIMITS.lanes) continue;
        this.lanes.set(key, new Lane(`${text(model.name)}: ${name}`));
      }
      this.lanes.get(key).add(row);
      this.events += Math.max(1, number(row[5]));
    }
    this.ended = newestOfEachApp([...records(model.ended).reverse(), ...this.ended], LIMITS.ended);
    for (const answer of records(model.answered)) {
      for (const tool of list(answer.tools)) {
        const known = this.tools.has(tool) || this.tools.size < LIMITS.tools;
        const name = known ? text(tool) : "others";
        this.tools.set(name, (this.tools.get(name) ?? 0) + 1);
      }
    }
    this.events += list(model.ended).length + list(model.answered).length;
  }

  measureRate(t) {
    const tokens = this.models.reduce((sum, model) => sum + number(model.counts?.sampled_tokens), 0);
    const before = this.counted;
    if (before !== null && t <= before.t) return;
    this.counted = { t, tokens };
    if (before === null) return;
    this.rates.push({ t, rate: Math.max(0, (tokens - before.tokens) / (t - before.t)) });
    if (this.rates.length > LIMITS.rates) this.rates.shift();
  }

  applySpeculation(speculation) {
    this.speculation = speculation;
    for (const each of records(speculation.recent)) this.speculated.unshift(each);
    this.speculated.length = Math.min(this.speculated.length, LIMITS.speculated);
    this.events += list(speculation.recent).length;
  }

  // Tokens a second in the last second.
  get rate() {
    const recent = this.rates.filter((each) => each.t > this.t - 1);
    return recent.reduce((sum, each) => sum + each.rate, 0) / Math.max(1, recent.length);
  }

  sum(name) {
    return this.models.reduce((sum, model) => sum + number(model.counts?.[name]), 0);
  }

  // Whether the server has had models and has none any more: they are of an earlier frame.
  get over() {
    return this.served !== null && this.served < this.t;
  }

  // Whether no request was there in the newest frame.
  get idle() {
    return this.over || this.models.every((model) => !number(model.running) && !number(model.waiting));
  }

  // What each lane did between two times: shares of the seconds that were seen, and kernels a second of them.
  use(from, to) {
    const spans = this.seen
      .map((span) => ({ from: Math.max(from, span.from), to: Math.min(to, span.to) }))
      .filter((span) => span.to > span.from);
    const seen = spans.reduce((sum, span) => sum + span.to - span.from, 0);
    const share = (sum) => (seen ? Math.min(1, sum / seen) : null);
    const lanes = [...this.lanes.values()].map((lane) => {
      const sums = { reactive: 0, proactive: 0, kernels: 0 };
      for (let place = lane.bars.length - 1; place >= 0; place -= 1) {
        const bar = lane.bars[place];
        if (bar.end < from) break;
        let seconds = 0;
        for (const span of spans) {
          seconds += Math.max(0, Math.min(bar.end, span.to) - Math.max(bar.start, span.from));
        }
        if (!seconds) continue;
        sums[bar.reactive ? "reactive" : "proactive"] += seconds;
        sums.kernels += bar.kernels;
      }
      return {
        name: lane.name,
        reactive: share(sums.reactive),
        proactive: share(sums.proactive),
        kernels: seen ? sums.kernels / seen : null,
      };
    });
    return { seen, lanes };
  }
}

// The newest frames as they came, for a file. The oldest are dropped.
class Recorder {
  constructor(characters = 16 * 2 ** 20) {
    this.most = characters;
    this.clear();
  }

  clear() {
    this.frames = [];
    this.first = 0;
    this.characters = 0;
    this.t = -Infinity;
  }

  // Another server, which may come also after a replay, has a time of its own and is recorded anew.
  add(line, t) {
    if (t < this.t) this.clear();
    this.t = t;
    this.frames.push(line);
    this.characters += line.length;
    while (this.characters > this.most && this.first < this.frames.length) {
      this.characters -= this.frames[this.first].length;
      this.frames[this.first] = "";
      this.first += 1;
    }
    if (this.first > 1000) {
      this.frames.splice(0, this.first);
      this.first = 0;
    }
  }

  get empty() {
    return this.first === this.frames.length;
  }

  file() {
    const body = this.frames.slice(this.first).join(",\n");
    return new Blob([`{"agentrt_live": 1, "frames": [\n${body}\n]}\n`], { type: "application/json" });
  }
}
