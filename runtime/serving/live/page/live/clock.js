// The server's time between its frames, which come in steps and not evenly.
"use strict";

const AWAY_S = 1; // a frame this early or late is no unevenness: another server, or one that was not heard
const SHARE = 0.1; // of a frame in what is known of the server's time
const MOST_AFTER_S = 1.5; // the last frame: a server that is silent has stopped

class ServerClock {
  constructor() {
    this.ahead = null; // of this page's clock, in seconds
    this.newest = null;
    this.heard = null; // when the newest frame came, in this page's milliseconds
  }

  // A frame of time t, in seconds, has come at this page's time, in milliseconds.
  hear(t, milliseconds) {
    const ahead = t - milliseconds / 1000;
    const uneven = this.ahead !== null && Math.abs(ahead - this.ahead) < AWAY_S;
    this.ahead = uneven ? this.ahead + SHARE * (ahead - this.ahead) : ahead;
    this.newest = t;
    this.heard = milliseconds;
  }

  // Return the server's time, in seconds. A frame has come.
  at(milliseconds) {
    return Math.min(this.newest + MOST_AFTER_S, milliseconds / 1000 + this.ahead);
  }
}
