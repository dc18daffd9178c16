// Tables and lists. Whatever comes from clients becomes the text of a text node, and nothing else.
"use strict";

const seconds = (value) =>
  value === null || value === undefined ? "" : `${number(value) < 10 ? number(value).toFixed(2) : Math.round(number(value))} s`;
const percent = (share) => `${Math.round(100 * number(share))} %`;
const integer = (value) => Math.round(number(value)).toLocaleString();

function bytes(value) {
  const mib = number(value) / 2 ** 20;
  return mib < 10 ? `${mib.toFixed(1)} MiB` : `${integer(mib)} MiB`;
}

function setText(element, value) {
  const wanted = text(value);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// CSS has no space before the sign, unlike text.
function setWidth(element, share) {
  element.style.width = `${100 * number(share)}%`;
}

const COLUMN_PX = 112; // where a section has less for each column of a table, its rows are stacked

// A table whose rows are used again, so that a page that is open for days has no more nodes than one that
// was just opened, and a screen reader keeps its place.
class DataTable {
  constructor(table, columns, empty) {
    this.columns = columns;
    this.empty = empty;
    watchWidth(table.closest("section"), (width) => {
      table.classList.toggle("stacked", width < columns.length * COLUMN_PX);
    });
    const head = table.createTHead().insertRow();
    for (const [title] of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = title;
      head.append(cell);
    }
    this.body = table.createTBody();
  }

  show(rows) {
    const shown = rows.length ? rows : [null];
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    while (this.body.rows.length < shown.length) this.body.insertRow();
    shown.forEach((row, place) => this.showRow(this.body.rows[place], row));
  }

  showRow(element, row) {
    const width = row === null ? 1 : this.columns.length;
    while (element.cells.length > width) element.deleteCell(-1);
    while (element.cells.length < width) {
      const [title, , kind] = this.columns[element.cells.length];
      const cell = element.insertCell();
      cell.className = kind ?? "";
      cell.dataset.title = title; // shown where rows are stacked
    }
    element.classList.toggle("empty", row === null);
    element.cells[0].colSpan = row === null ? this.columns.length : 1;
    if (row === null) setText(element.cells[0], this.empty);
    else this.columns.forEach(([, cell], place) => setText(element.cells[place], cell(row)));
  }
}

// A list of terms and values that never changes its length.
class Facts {
  constructor(element, terms) {
    this.values = terms.map((term) => {
      const [group, name, value] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
      name.textContent = term;
      group.append(name, value);
      element.append(group);
      return value;
    });
  }

  show(values) {
    values.forEach((value, place) => setText(this.values[place], value));
  }
}

function eta(request) {
  const { first_token_s: left } = request;
  if (left === null) return `— ${text(request.not_known)}`;
  if (left !== undefined) return `first token in ${left < 0.01 ? "under 0.01 s" : seconds(left)}`;
  if (request.end_s !== undefined) return `done within ${seconds(Math.max(0.01, number(request.end_s)))}`;
  return "";
}

function stateOf(request) {
  const share = request.state === "prefill" ? ` ${percent(request.prefilled)}` : "";
  return `${text(request.state)}${share}${request.promoted ? ", promoted" : ""}`;
}

const appOf = (row) => row.app || "no name";

const REQUESTS = [
  ["Class", (row) => row.class, "class"],
  ["App", appOf, "name"],
  ["State", stateOf, "phrase"],
  ["Queue position", (row) => row.position],
  ["Expected", eta, "phrase"],
  ["Age", (row) => seconds(row.age_s)],
  ["Tokens", (row) => integer(row.tokens)],
  ["Request", (row) => row.id],
  ["Context", (row) => row.context],
];
const ENDED = [
  ["Class", (row) => row.class, "class"],
  ["App", appOf, "name"],
  ["Outcome", (row) => row.outcome],
  ["Queued", (row) => seconds(row.queued_s)],
  ["First token", (row) => seconds(row.first_token_s)],
  ["Total", (row) => seconds(row.total_s)],
  ["Request", (row) => row.id],
];
const WAITS = new Map([
  ["on_battery", "a power supply"],
  ["heat", "the machine to cool down"],
  ["other_load", "other programs"],
  ["measuring", "the load to be measured"],
]);

function doneIn(row) {
  const [earliest, latest] = list(row.done_s);
  if (latest === undefined) return "— not known";
  return `in ${seconds(earliest)} to ${seconds(latest)}`;
}

function placeOf(row) {
  const most = number(row.position_at_most);
  return most > number(row.position) ? `${integer(row.position)}, at most ${integer(most)}` : integer(row.position);
}

const BACKGROUND = [
  ["App", appOf, "name"],
  ["State", (row) => (row.status === "in_progress" ? "in progress" : row.status)],
  ["Begin before it", placeOf, "phrase"],
  ["Done", doneIn, "phrase"],
  ["Response", (row) => row.id],
];
const PURPOSES = new Map([
  ["next turn", "the next turn, while tools run"],
  ["disk", "loads from disk and copies to it"],
]);
const several = (row) => (["requests", "next turn"].includes(row.held_for) ? "several" : "");
const MEMORY = [
  ["App", (row) => (row.app === null ? several(row) : appOf(row)), "name"],
  ["Context", (row) => (row.context === null ? several(row) : row.context)],
  ["Held for", (row) => PURPOSES.get(row.held_for) ?? row.held_for, "phrase"],
  ["KV memory", (row) => bytes(row.bytes)],
];
const MODELS = [
  ["Model", (row) => row.name, "name"],
  ["Status", (row) => (row.stalled_s > 5 ? `no progress for ${seconds(row.stalled_s)}` : row.status), "phrase"],
  ["Running", (row) => integer(row.running)],
  ["Waiting", (row) => integer(row.waiting)],
  ["Memory", (row) => bytes(row.memory_bytes)],
];
const ifSeen = (cell) => (row) => (row.kernels === null ? "—" : cell(row));
const LANES = [
  ["XPU", (row) => row.name, "name"],
  ["Reactive", ifSeen((row) => percent(row.reactive))],
  ["Proactive", ifSeen((row) => percent(row.proactive))],
  ["Idle", ifSeen((row) => percent(Math.max(0, 1 - row.reactive - row.proactive)))],
  ["Kernels a second", ifSeen((row) => integer(row.kernels))],
];
const LATEST = 10; // kernels in their table
const KERNELS = [
  ["XPU", (row) => row.lane, "name"],
  ["Class", (row) => (row.bar.reactive ? "reactive" : "proactive"), "class"],
  ["Stage", (row) => row.bar.stage],
  ["Duration", (row) => `${(1000 * (row.bar.end - row.bar.start)).toFixed(2)} ms`],
  ["Request", (row) => row.bar.request + (row.bar.others ? ` and ${row.bar.others} others` : ""), "phrase"],
];
const TOOLS = [
  ["Tool", (row) => row[0], "name"],
  ["Calls answered", (row) => integer(row[1])],
];
const SPECULATED = [
  ["Tool", (row) => row.tool, "name"],
  ["What", (row) => row.what, "phrase"],
  ["Saved", (row) => seconds(row.saved_s)],
];

function overSeconds(seen, span) {
  const whole = `the ${span} s shown`;
  if (!seen) return `: nothing of ${whole} has been seen`;
  if (seen > span - 0.05) return ` over ${whole}`;
  return ` over ${Math.max(0.1, seen).toFixed(1)} s: no more of ${whole} has been seen`;
}

class Tables {
  constructor() {
    const table = (id, columns, empty) => new DataTable(document.getElementById(id), columns, empty);
    const facts = (id, terms) => new Facts(document.getElementById(id), terms);
    this.requests = table("requests", REQUESTS, "no request");
    this.ended = table("ended", ENDED, "none yet");
    this.memory = table("memory", MEMORY, "none is held");
    this.models = table("models", MODELS, "none");
    this.lanes = table("lanes", LANES, "no kernel has run");
    this.kernels = table("kernels", KERNELS, "none");
    this.tools = table("answered", TOOLS, "none yet");
    this.background = table("background", BACKGROUND, "none");
    this.speculated = table("speculated", SPECULATED, "none yet");
    this.now = facts("now", ["Tokens a second", "Running", "Waiting"]);
    this.since = facts("since", ["Finished", "Cancelled", "Failed", "Preemptions", "Draft tokens accepted"]);
    this.cache = facts("cache", ["Calls answered", "Tokens given"]);
    this.speculation = facts("speculation", ["Drafts", "Claims", "Misses", "Wasted", "Seconds saved"]);
    this.bars = document.getElementById("memory-bars");
  }

  show(state, now, span) {
    const all = (name) => state.models.flatMap((model) => records(model[name]));
    const total = (name) => integer(state.models.reduce((sum, model) => sum + number(model[name]), 0));
    const drafted = state.sum("drafted_tokens");
    this.now.show([integer(state.rate), total("running"), total("waiting")]);
    this.since.show([
      integer(state.sum("finished")), integer(state.sum("cancelled")), integer(state.sum("failed")),
      integer(state.sum("preemptions")), drafted ? percent(state.sum("accepted_tokens") / drafted) : "none drafted",
    ]);
    this.requests.show(all("requests"));
    this.ended.show(state.ended);
    this.memory.show(state.models.flatMap((model) => records(model.kv?.held)));
    this.models.show(state.models);
    this.showUse(state, now, span);
    if (document.getElementById("kernels").closest("details").open) this.showKernels(state, now);
    this.cache.show([integer(state.sum("answered_calls")), integer(state.sum("given_tokens"))]);
    this.tools.show([...state.tools].sort((one, other) => other[1] - one[1]));
    this.showBars(state.models.filter((model) => model.kv));
    document.getElementById("background-section").hidden = state.background === null;
    if (state.background !== null) {
      const { waits_for: reason, unended, jobs } = state.background;
      const waits = reason ? `. They wait for ${WAITS.get(reason) ?? text(reason)}` : "";
      setText(document.getElementById("background-now"), `${integer(unended)} have not ended${waits}`);
      this.background.show(records(jobs));
    }
    document.getElementById("speculation-section").hidden = state.speculation === null;
    if (state.speculation !== null) {
      const { drafts, claims, misses, wasted, saved_s: saved } = state.speculation;
      this.speculation.show([integer(drafts), integer(claims), integer(misses), integer(wasted), seconds(saved)]);
      this.speculated.show(state.speculated);
    }
  }

  showUse(state, now, span) {
    const { seen, lanes } = state.use(now - span, now);
    this.lanes.show(lanes);
    setText(document.getElementById("lanes").caption, `Use of each XPU${overSeconds(seen, span)}`);
  }

  // The kernels that had ended at a time.
  showKernels(state, now) {
    const rows = [...state.lanes.values()].flatMap((lane) =>
      lane.newest(LATEST, now).map((bar) => ({ lane: lane.name, bar })));
    this.kernels.show(rows.sort((one, other) => other.bar.end - one.bar.end).slice(0, LATEST));
  }

  showBars(models) {
    while (this.bars.children.length > models.length) this.bars.lastChild.remove();
    while (this.bars.children.length < models.length) this.bars.append(memoryBar());
    models.forEach((model, place) => {
      const { bytes: whole, free_bytes: free, cached_bytes: cached } = model.kv;
      const held = number(whole) - number(free) - number(cached);
      const [label, bar] = this.bars.children[place].children;
      setText(label, `${text(model.name)}: ${bytes(held)} held, ${bytes(cached)} in the prefix cache, ` +
        `${bytes(free)} free`);
      setWidth(bar.children[0], held / whole);
      setWidth(bar.children[1], cached / whole);
    });
  }
}

function memoryBar() {
  const make = (name, className) => Object.assign(document.createElement(name), { className });
  const bar = make("div", "bar");
  bar.setAttribute("aria-hidden", "true"); // the line above says the same
  bar.append(make("span", "held"), make("span", "cached"));
  const whole = make("div", "");
  whole.append(make("p", ""), bar);
  return whole;
}
