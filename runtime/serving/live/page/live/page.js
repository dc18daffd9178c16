// Brings the parts together: the stream or a recording fills the state, and the state is drawn.
"use strict";

const TABLE_MS = 250; // between two updates of the tables: faster ones cannot be read
const BEHIND_S = 0.3; // the timeline is drawn this late, so that it moves evenly although frames come in steps
const SILENT_S = 2; // after a frame was due: what is shown is old
const HEARTBEAT_S = 5; // between the frames of an idle server
const TOKEN = "agentrt token";
const THEME = "agentrt theme";
const WINDOWS = [0.5, 1, 2, 5, 10, 20, 60];
const STATUS = {
  connecting: "Connecting",
  live: "Live",
  token: "The server needs the token of its owner",
  unknown: "The server does not know this token",
  owner: "This token is not the owner's, which is the first app's in the token file",
  lost: "The server does not answer. Trying again",
};
const ago = (seconds) => (seconds < 120 ? `${Math.floor(seconds)} s` : `${Math.floor(seconds / 60)} min`);
const byId = (id) => document.getElementById(id);

class LivePage {
  constructor() {
    this.state = new LiveState();
    this.recorder = new Recorder();
    this.colours = new Colours();
    this.timeline = new Timeline(byId("timeline"), this.colours);
    this.rates = new Rates(byId("speed-chart"), this.colours);
    this.tables = new Tables();
    this.player = null;
    this.paused = false;
    this.connection = "connecting";
    this.notice = null; // said until something else is done
    this.replaying = "";
    this.changed = true;
    this.clock = new ServerClock();
    this.before = 0;
    this.drawnTables = -Infinity;
    this.drawn = 0; // frames of the timeline, for the bench
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.stream = new EventStream("live/events", (line) => this.receive(line), (what) => this.say(what));
    this.listen();
    this.connect();
    requestAnimationFrame((time) => this.draw(time));
  }

  connect() {
    if (location.protocol === "file:") {
      this.notice = "No server. Open a recording";
      return;
    }
    this.stream.token = sessionStorage.getItem(TOKEN) ?? "";
    this.stream.open();
  }

  receive(line) {
    let frame;
    try {
      frame = JSON.parse(line);
    } catch {
      return; // cut off by the end of the stream
    }
    if (!Number.isFinite(frame?.t)) return;
    this.recorder.add(line, frame.t);
    const first = this.state.t === null;
    this.state.apply(frame);
    this.clock.hear(frame.t, performance.now());
    if (first) this.showStatus(performance.now());
    this.changed = true;
  }

  say(what) {
    this.connection = what;
    this.notice = null;
    this.showStatus(performance.now());
    const asks = ["token", "unknown", "owner"].includes(what);
    if (asks) sessionStorage.removeItem(TOKEN);
    byId("access").hidden = !asks;
    if (asks) byId("token").focus();
  }

  listen() {
    byId("access").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN, byId("token").value.trim());
      byId("token").value = "";
      this.connect();
    });
    byId("pause").addEventListener("click", () => (this.player ? this.play() : this.pause(!this.paused)));
    byId("save").addEventListener("click", () => this.save());
    byId("file").addEventListener("change", (event) => this.replay(event.target.files[0]));
    byId("leave").addEventListener("click", () => this.leave());
    byId("play").addEventListener("click", () => this.play());
    byId("seek").addEventListener("input", (event) => this.seek(Number(event.target.value)));
    byId("speed").addEventListener("change", (event) => {
      this.player.speed = Number(event.target.value);
    });
    byId("zoom-in").addEventListener("click", () => this.zoom(-1));
    byId("zoom-out").addEventListener("click", () => this.zoom(1));
    byId("theme").addEventListener("change", (event) => this.setTheme(event.target.value));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    byId("kernels").closest("details").addEventListener("toggle", () => {
      if (!this.paused) this.tables.showKernels(this.state, this.now(performance.now()));
    });
    this.setTheme(sessionStorage.getItem(THEME) ?? "auto");
    this.zoom(0);
  }

  pause(wanted) {
    this.paused = wanted;
    this.notice = null;
    this.pausedHeard = this.clock.heard;
    this.pausedAt = this.now(performance.now());
    // Also where they are not open yet: the page forgets them during a long pause.
    if (wanted) this.tables.showKernels(this.state, this.pausedAt);
    this.showPause(wanted);
    this.changed = true;
  }

  showPause(paused) {
    byId("pause").setAttribute("aria-pressed", String(paused));
    setText(byId("pause"), paused ? "Go on" : "Pause");
  }

  save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(this.recorder.file());
    link.download = "agentrt-live.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  async replay(file) {
    if (!file) return;
    try {
      const frames = await framesOfFile(file);
      this.stream.close();
      this.pause(false);
      this.player = new Player(frames, this.state);
    } catch (error) {
      this.notice = `${file.name} cannot be replayed: ${error.message}`;
      return;
    } finally {
      byId("file").value = "";
    }
    this.replaying = file.name;
    byId("seek").max = String(this.player.duration);
    byId("speed").value = "1";
    byId("access").hidden = true;
    byId("player").hidden = false;
    byId("leave").hidden = location.protocol === "file:";
    byId("play").focus();
    this.changed = true;
  }

  leave() {
    this.player = null;
    this.showPause(false);
    byId("player").hidden = true;
    byId("file").focus(); // what had it is hidden
    this.state.clear();
    this.changed = true;
    this.connect();
  }

  play() {
    if (this.player.t >= this.player.duration) this.player.seek(0);
    this.player.playing = !this.player.playing;
  }

  seek(t) {
    this.player.seek(t);
    this.changed = true;
  }

  zoom(step) {
    const place = WINDOWS.indexOf(this.timeline.seconds) + step;
    const seconds = WINDOWS[Math.max(0, Math.min(place, WINDOWS.length - 1))];
    this.timeline.show(seconds);
    setText(byId("window"), `${seconds} ${seconds === 1 ? "second" : "seconds"}`);
    this.changed = true;
  }

  setTheme(theme) {
    sessionStorage.setItem(THEME, theme);
    byId("theme").value = theme;
    document.documentElement.dataset.theme = theme;
    this.recolour();
  }

  recolour() {
    this.colours.read();
    this.timeline.reset();
    this.changed = true;
  }

  // The time at the right edge of the timeline.
  now(time) {
    if (this.player) return this.player.t;
    if (this.state.t === null) return 0;
    if (this.state.over) return this.state.served;
    return this.clock.at(time) - BEHIND_S;
  }

  // What is shown is said at once. How old it is changes all the time, and is beside it, unannounced.
  showStatus(time) {
    setText(byId("status"), this.notice ?? this.statusAt(time));
    const age = this.ageAt(time);
    byId("save").disabled = this.player !== null || this.recorder.empty;
    setText(byId("age"), age === null ? "" : `figures of ${ago(age)} ago`);
  }

  statusAt(time) {
    if (this.player) return `Replaying ${this.replaying}`;
    if (this.connection !== "live") return STATUS[this.connection];
    if (this.silentAt(time)) return "The server has sent nothing for too long";
    if (this.paused) return "Paused";
    return this.state.over ? "No model is there any more: these are the last figures" : STATUS.live;
  }

  // Seconds since what is shown was so; null while it is what is.
  ageAt(time) {
    if (this.player || this.state.t === null) return null;
    if (this.paused) return (time - this.pausedHeard) / 1000;
    if (this.connection === "live" && !this.silentAt(time) && !this.state.over) return null;
    return (time - this.clock.heard) / 1000 + this.state.t - this.state.served;
  }

  silentAt(time) {
    if (this.state.t === null) return false;
    const due = this.state.idle ? HEARTBEAT_S : Math.min(HEARTBEAT_S, this.state.step);
    return time - this.clock.heard > 1000 * (due + SILENT_S);
  }

  draw(time) {
    requestAnimationFrame((next) => this.draw(next));
    const elapsed = Math.min(0.5, (time - this.before) / 1000);
    this.before = time;
    if (this.player) this.advancePlayer(elapsed);
    const due = time - this.drawnTables >= TABLE_MS;
    if (due) {
      this.drawnTables = time;
      this.showStatus(time);
    }
    if (this.paused) {
      this.drawPaused();
      return;
    }
    const now = this.now(time);
    // Where less motion is wished for, the picture changes as often as the tables do.
    if (due || (!this.still.matches && this.moves(now))) {
      this.timeline.draw(this.state, now);
      this.drawn += 1;
    }
    if (!due || !this.changed) return;
    this.changed = this.player !== null && this.player.playing;
    this.tables.show(this.state, now, this.timeline.seconds);
    this.rates.draw(this.state);
  }

  // What is shown changes its size, its colours and its span, but does not go on.
  drawPaused() {
    if (!this.timeline.stale) return;
    this.timeline.draw(this.state, this.pausedAt);
    this.tables.showUse(this.state, this.pausedAt, this.timeline.seconds);
  }

  advancePlayer(elapsed) {
    const { playing } = this.player;
    this.player.advance(elapsed);
    this.changed ||= playing;
    byId("seek").value = String(this.player.t);
    setText(byId("position"), `${this.player.t.toFixed(1)} of ${this.player.duration.toFixed(1)} s`);
    setText(byId("play"), this.player.playing ? "Playing" : "Play");
    byId("play").setAttribute("aria-pressed", String(this.player.playing));
    this.showPause(!this.player.playing);
  }

  // Whether any kernel is in the time shown.
  moves(now) {
    for (const { bars } of this.state.lanes.values()) {
      if (bars.length && bars.at(-1).end > now - this.timeline.seconds) return true;
    }
    return false;
  }
}

const live = new LivePage();
