// Recordings: frames that were saved here, traces of kernels, and recorded runs of agents.
"use strict";

const MOST_FILE_BYTES = 256 * 2 ** 20;
const MOST_DAYS = 7;
const VERSION = 1; // of the page's own recordings
const STEP_S = 0.2; // between the frames of a busy server, and of those that are made of a trace

// Return the frames of a file, with the time of the first one as 0.
async function framesOfFile(file) {
  if (file.size > MOST_FILE_BYTES) throw new Error("it is larger than 256 MiB");
  let data;
  try {
    data = JSON.parse(await file.text());
  } catch {
    throw new Error("it is not JSON");
  }
  const frames = framesOf(data);
  if (!frames.length) throw new Error("there is nothing in it to replay");
  frames.sort((one, other) => one.t - other.t);
  const begin = frames[0].t;
  refuseLong(frames.at(-1).t - begin);
  for (const frame of frames) shift(frame, begin);
  return frames;
}

function refuseLong(seconds) {
  if (seconds <= MOST_DAYS * 86400) return;
  const days = integer(seconds / 86400);
  throw new Error(`it spans ${days} days, and ${MOST_DAYS} are the most: are its times wrong?`);
}

function framesOf(data) {
  const version = data?.agentrt_live;
  if (version !== undefined && version !== VERSION) {
    throw new Error(`it is of version ${text(version).slice(0, 20)}, and this page reads version ${VERSION}. `
      + "Open it with the agentrt that has written it");
  }
  if (version === VERSION && Array.isArray(data.frames)) {
    return data.frames.filter((frame) => Number.isFinite(frame?.t));
  }
  if (Array.isArray(data?.traceEvents)) return framesOfTrace(data.traceEvents);
  if (Array.isArray(data?.turns)) return framesOfTurns(data.turns);
  throw new Error("it is no recording of the live page, no trace and no recorded run");
}

function shift(frame, begin) {
  frame.t -= begin;
  for (const model of records(frame.models)) {
    for (const row of list(model.kernels).filter(Array.isArray)) row[1] -= begin;
  }
}

// Frames of a trace as Trace.write_chrome writes it.
function framesOfTrace(events) {
  const tracks = new Map();
  const requests = new Map();
  const kernels = [];
  const begin = beginOf(records(events));
  const at = (event) => (event.ts - begin) / 1e6;
  for (const event of records(events)) {
    if (event.ph === "M" && event.name === "thread_name") tracks.set(event.tid, text(event.args?.name));
    else if (event.ph === "X") kernels.push(event);
    else if (event.ph === "b" || event.ph === "e") {
      const known = requests.get(event.id) ?? {
        id: text(event.id).slice(0, 12), ...event.args, begin: undefined, end: undefined,
      };
      known[event.ph === "b" ? "begin" : "end"] = at(event);
      requests.set(event.id, known);
    }
  }
  const xpus = [...tracks.values()];
  const track = [...tracks.keys()];
  const rows = kernels.map((event) => [
    Math.max(0, track.indexOf(event.tid)),
    at(event),
    number(event.dur) / 1e6,
    ["prefill", "decode", "mixed"].indexOf(text(event.name).split(" ")[1]),
    Number(event.cat === "reactive"),
    1,
    text(event.args?.requests?.[0]).slice(0, 12),
    Math.max(0, list(event.args?.requests).length - 1),
    sampledBy(event),
  ]);
  return framesOfRows("trace", xpus, rows, [...requests.values()]);
}

// Return when the first event of a trace is, in microseconds: a clock may begin anywhere.
function beginOf(events) {
  let begin = Infinity;
  for (const { ph, ts, dur = 0 } of events) {
    if (!["X", "b", "e"].includes(ph)) continue;
    if (!Number.isFinite(ts) || !(dur >= 0)) throw new Error("its events have ts or dur that are no times");
    begin = Math.min(begin, ts);
  }
  return begin;
}

// The tokens that a decode step sampled, told by its last kernel; drafts count as well.
function sampledBy(event) {
  const [kernel, count] = text(event.args?.kernel).split(" of ");
  const last = kernel !== "" && kernel === count;
  return last && text(event.name).split(" ")[1] === "decode" ? number(event.args?.tokens) : 0;
}

// Frames of a recorded run: its model requests and its tool calls, one after the other.
function framesOfTurns(turns) {
  const rows = [];
  let at = 0;
  records(turns).forEach((turn, place) => {
    rows.push([0, at, number(turn.seconds), 1, 1, 1, `request ${place + 1}`, 0, 0]);
    at += number(turn.seconds);
    const calls = records(turn.calls);
    for (const call of calls) rows.push([1, at, number(call.seconds), 1, 1, 1, text(call.name), 0, 0]);
    at += Math.max(0, ...calls.map((call) => number(call.seconds)));
  });
  return framesOfRows("recorded run", ["model", "tools"], rows, []);
}

// Frames in steps of STEP_S, without those in which nothing begins or ends: a trace may be nearly empty.
function framesOfRows(name, xpus, rows, requests) {
  const stepOf = (t) => Math.ceil(t / STEP_S);
  const kernels = new Map();
  const begun = new Map();
  const over = new Map();
  const steps = new Set([0]);
  // Rates are of the time since the frame before.
  const put = (map, t, value) => {
    refuseLong(t);
    const step = stepOf(t);
    steps.add(Math.max(0, step - 1)).add(step);
    if (map.has(step)) map.get(step).push(value);
    else map.set(step, [value]);
  };
  rows.sort((one, other) => one[1] + one[2] - (other[1] + other[2]));
  for (const row of rows) put(kernels, row[1] + row[2], row);
  for (const each of requests.filter(({ begin }) => begin !== undefined)) {
    put(begun, each.begin, each);
    if (each.end !== undefined) put(over, each.end, each);
  }
  const open = new Set();
  let [tokens, finished] = [0, 0];
  return [...steps].sort((one, other) => one - other).map((step, place) => {
    const t = step * STEP_S;
    const ran = kernels.get(step) ?? [];
    for (const row of ran) tokens += row[8];
    for (const each of begun.get(step) ?? []) open.add(each);
    const ended = over.get(step) ?? [];
    for (const each of ended) open.delete(each);
    finished += ended.length;
    const counts = { sampled_tokens: tokens, finished };
    const running = [...open].map((each) => openRow(each, t));
    const waiting = running.filter((each) => each.state === "waiting").length;
    const model = { name, status: "recorded", xpus, kernels: ran, requests: running, counts };
    const numbers = { waiting, running: running.length - waiting };
    return { n: place + 1, t, models: [{ ...model, ...numbers, ended: ended.map(endedRow) }] };
  });
}

function openRow(request, t) {
  const age = t - request.begin;
  const waits = (at) => at === null || at === undefined || age < at;
  const state = waits(request.queued_s) ? "waiting" : waits(request.time_to_first_token_s) ? "prefill" : "decode";
  return { id: request.id, app: request.app, class: request.priority, state, age_s: age };
}

function endedRow(request) {
  return {
    id: request.id,
    app: request.app,
    class: request.priority,
    outcome: request.outcome,
    queued_s: request.queued_s,
    first_token_s: request.time_to_first_token_s,
    total_s: request.end - request.begin,
  };
}

// Frames that are shown at the times at which they were recorded.
class Player {
  constructor(frames, state) {
    this.frames = frames;
    this.state = state;
    this.duration = frames.at(-1).t;
    this.speed = 1;
    this.playing = true;
    this.seek(0);
  }

  // Show the run as it was at a time.
  seek(t) {
    this.t = Math.max(0, Math.min(t, this.duration));
    this.state.clear();
    this.place = 0;
    this.show();
  }

  advance(elapsed) {
    if (!this.playing) return;
    this.t = Math.min(this.t + elapsed * this.speed, this.duration);
    this.playing = this.t < this.duration;
    this.show();
  }

  show() {
    for (; this.place < this.frames.length && this.frames[this.place].t <= this.t; this.place += 1) {
      this.state.apply(this.frames[this.place]);
    }
    // Also a server that is idle sends frames seldom, but one soon after something has happened.
    const next = this.frames[this.place];
    if (next?.n === this.state.n + 1) this.state.seeNothingUntil(Math.min(this.t, next.t - STEP_S));
  }
}
