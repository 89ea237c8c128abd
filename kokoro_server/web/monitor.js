// The state of the batcher, asked for once a second while the page is in view.

import { KeyNeeded, getJsonQuietly } from "./api.js";
import { colour, onRedraw, sheet } from "./canvas.js";

const PERIOD = 1000; // milliseconds
const HISTORY = 60; // readings shown

const STATES = {
  healthy: "healthy",
  degraded: "under strain",
  unhealthy: "not running",
  disabled: "batching is off",
  unreachable: "cannot be reached",
  locked: "asks for a key",
};

/** A figure, a line of small print, and a chart of the last minute. */
class Tile {
  readings = [];
  #figure;
  #note;
  #chart;
  #least; // what the chart's full height stands for, at least
  #title;

  constructor(name, least) {
    const tile = document.querySelector(`#tile-${name}`);
    this.#figure = tile.querySelector(".figure");
    this.#note = tile.querySelector(".note");
    this.#chart = tile.querySelector("canvas");
    this.#title = tile.querySelector("h3").textContent;
    this.#least = least;
    onRedraw(this.#chart, () => this.#draw());
  }

  show(value, figure, note) {
    this.readings.push(value);
    this.readings.splice(0, this.readings.length - HISTORY);
    this.#figure.textContent = figure;
    this.#note.textContent = note;
    const most = Math.max(...this.readings);
    this.#chart.setAttribute("aria-label", `${this.#title} in the last minute: at most ${number(most)}`);
    this.#draw();
  }

  #draw() {
    const { pen, width, height } = sheet(this.#chart);
    const top = Math.max(this.#least, ...this.readings);
    const step = width / (HISTORY - 1);
    const x = (i) => width - (this.readings.length - 1 - i) * step;
    const y = (value) => height - 1.5 - (value / top) * (height - 4);
    pen.fillStyle = colour(this.#chart, "line");
    pen.fillRect(0, height - 1, width, 1);
    if (this.readings.length < 2) return;
    const line = new Path2D();
    this.readings.forEach((value, i) => line.lineTo(x(i), y(value)));
    const area = new Path2D(line);
    area.lineTo(width, height);
    area.lineTo(x(0), height);
    pen.fillStyle = pen.strokeStyle = colour(this.#chart, "accent");
    pen.globalAlpha = 0.13;
    pen.fill(area);
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5;
    pen.lineJoin = "round";
    pen.stroke(line);
  }
}

export class Monitor {
  #state = document.querySelector("#batcher-state");
  #tiles = {
    queue: new Tile("queue", 4),
    batch: new Tile("batch", 4),
    wait: new Tile("wait", 20),
    sound: new Tile("sound", 100),
    throughput: new Tile("throughput", 2),
  };
  #devices = document.querySelector("#devices");
  #before = null; // {requests, batches, at}
  #starts = []; // {audio, audible} of each reading in the last minute

  get readings() {
    return Object.fromEntries(Object.entries(this.#tiles).map(([name, tile]) => [name, [...tile.readings]]));
  }

  async run() {
    for (;;) {
      if (!document.hidden) await this.#poll();
      await new Promise((resolve) => setTimeout(resolve, PERIOD));
    }
  }

  async #poll() {
    try {
      this.#show(await getJsonQuietly("health/batching"));
    } catch (error) {
      this.#say(error instanceof KeyNeeded ? "locked" : "unreachable");
      this.#before = null;
      this.#starts = [];
    }
  }

  #show({ status, queue_status: queue, performance: done, devices, config, first_audio: audio, first_audible: audible }) {
    this.#say(status);
    this.#showDevices(devices);
    const { rows, batches, seconds } = this.#since(done);
    const wait = done.recent.queue_wait_ms;
    const size = batches ? rows / batches : 0;
    const { queue: waiting, batch, wait: waits, throughput } = this.#tiles;
    waiting.show(queue.current_size, number(queue.current_size), `${number(queue.running_rows)} being spoken`);
    batch.show(size, number(done.recent.avg_batch_size), `lately, of at most ${number(config.max_batch_size)}`);
    waits.show(wait.p50, time(wait.p50), `95 % within ${time(wait.p95)}`);
    this.#showStarts({ audio, audible });
    throughput.show(rows / seconds, `${number(rows / seconds)} / s`, `${phrases(done.total_requests)} since the start`);
  }

  /** How long listeners have waited for the first sound in the last minute: the mean. */
  #showStarts(now) {
    if (now.audible.count < (this.#starts.at(-1) ?? now).audible.count) this.#starts = []; // the server was restarted
    this.#starts.push(now);
    this.#starts.splice(0, this.#starts.length - HISTORY);
    const [oldest] = this.#starts;
    const latest = mean(now.audible, (this.#starts.at(-2) ?? now).audible);
    const sound = mean(now.audible, oldest.audible);
    const note = sound ? `first audio after ${time(mean(now.audio, oldest.audio))}` : "nobody has waited";
    this.#tiles.sound.show(latest, sound ? time(sound) : "–", note);
  }

  #showDevices(devices) {
    const lines = devices.map(deviceLine);
    const shown = [...this.#devices.children].map((item) => item.textContent);
    if (lines.join() === shown.join()) return;
    this.#devices.replaceChildren(
      ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
    );
  }

  /** What has been done since the last reading. */
  #since({ total_requests: requests, total_batches: batches }) {
    const now = { requests, batches, at: performance.now() };
    const before = this.#before ?? { ...now, at: now.at - PERIOD };
    this.#before = now;
    return {
      rows: Math.max(0, now.requests - before.requests), // a server that was restarted counts from zero
      batches: Math.max(0, now.batches - before.batches),
      seconds: (now.at - before.at) / 1000,
    };
  }

  #say(status) {
    const words = STATES[status] ?? status;
    this.#state.dataset.status = status;
    if (this.#state.textContent !== words) this.#state.textContent = words;
  }
}

/** How busy a device is, how long it idled between batches while something waited, and what its engine holds. */
function deviceLine({ device, status, busy_share: busy, idle_gap_ms: gap, resources = {} }) {
  const { graphs, graphs_pending: pending, device_bytes: memory, pinned_bytes: pinned } = resources;
  const facts = [
    status === "lost" ? "lost" : `${number(100 * busy)} % busy`,
    gap.p95 ? `idle between batches ${time(gap.p50)}, 95 % within ${time(gap.p95)}` : null,
    graphs === undefined ? null : `${number(graphs)} graphs${pending ? `, ${number(pending)} to come` : ""}`,
    memory === undefined ? null : `${gigabytes(memory)} on the device`,
    pinned === undefined ? null : `${gigabytes(pinned)} pinned`,
  ];
  return [device, ...facts.filter(Boolean)].join(" · ");
}

/** The mean milliseconds between two readings of a count and its total; 0 if nothing was counted. */
function mean(now, before) {
  const count = now.count - before.count;
  return count ? (1000 * (now.total_seconds - before.total_seconds)) / count : 0;
}

function gigabytes(bytes) {
  return `${number(bytes / 1e9)} GB`;
}

function phrases(count) {
  return `${number(count)} ${count === 1 ? "phrase" : "phrases"}`;
}

function time(milliseconds) {
  return milliseconds < 1000 ? `${number(milliseconds)} ms` : `${number(milliseconds / 1000)} s`;
}

function number(value) {
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 });
}
