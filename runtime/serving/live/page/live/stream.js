// The event stream of the server, read with fetch: the token goes into a header, never into an address.
"use strict";

const MOST_UNREAD = 16 * 2 ** 20; // characters of one event
const MOST_SILENT_MS = 20000; // an idle server sends a frame every five seconds, also to a thousand pages
const RETRY_MS = [1000, 2000, 5000, 10000, 30000];

class EventStream {
  // onEvent receives the data of each event; onStatus one of the names in STATUS.
  constructor(address, onEvent, onStatus) {
    this.address = address;
    this.onEvent = onEvent;
    this.onStatus = onStatus;
    this.token = "";
    this.attempt = 0;
    this.aborting = null;
    this.timer = null;
  }

  open() {
    this.close();
    this.aborting = new AbortController();
    this.read(this.aborting.signal);
  }

  close() {
    clearTimeout(this.timer);
    this.aborting?.abort();
    this.aborting = null;
  }

  async read(signal) {
    // Nothing else may be in a header; no server has such a token.
    if (/[^\x21-\x7e]/.test(this.token)) {
      this.onStatus("unknown");
      return;
    }
    this.onStatus("connecting");
    try {
      const response = await fetch(this.address, {
        headers: this.token ? { authorization: `Bearer ${this.token}` } : {},
        cache: "no-store",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal,
      });
      if (response.status === 401 || response.status === 403) {
        const needed = this.token ? "unknown" : "token";
        this.onStatus(response.status === 401 ? needed : "owner");
        return;
      }
      if (!response.ok) throw new Error(`status ${response.status}`);
      this.attempt = 0;
      this.onStatus("live");
      await this.readEvents(response.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch (error) {
      if (signal.aborted) return;
      console.info("agentrt:", error.message);
    }
    if (signal.aborted) return;
    this.onStatus("lost");
    const wait = RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)];
    this.attempt += 1;
    this.timer = setTimeout(() => this.open(), wait);
  }

  async readEvents(reader) {
    let unread = "";
    for (;;) {
      const { done, value } = await this.readSome(reader);
      if (done) return;
      unread += value;
      const events = unread.split("\n\n");
      unread = events.pop();
      if (unread.length > MOST_UNREAD) throw new Error("an event is too long");
      for (const event of events) {
        if (event.startsWith("data: {\"n\"")) this.onEvent(event.slice("data: ".length));
      }
    }
  }

  // Read what comes next. A computer that slept, or a network that is gone, ends no stream.
  async readSome(reader) {
    const silence = setTimeout(() => reader.cancel(), MOST_SILENT_MS);
    try {
      return await reader.read();
    } finally {
      clearTimeout(silence);
    }
  }
}
