// Plays sound that arrives in parts as one sound without gaps.

export const SAMPLE_RATE = 24_000; // Hz, as the server sends it
const LEAD = SAMPLE_RATE / 20; // samples between scheduling the first part and hearing it

const AUDIBLE = 10 ** (-45 / 20); // of the peak

/** Where a listener begins to hear something, as the server defines it for the first part of a stream. */
function firstAudible(samples) {
  const peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
  return Math.max(0, samples.findIndex((sample) => Math.abs(sample) > AUDIBLE * peak));
}

/**
 * One utterance. Its parts are scheduled end to end on the audio clock, in whole samples. The context runs at their
 * sample rate, so that no part is resampled alone and no joint can be heard.
 */
class Playback {
  scheduled = 0; // parts
  played = 0;
  gaps = 0; // times when the next part came too late
  samples = 0; // received so far
  silence = 0; // seconds before the first audible sound

  #context;
  #parts = []; // {start, from, length, source}; in samples, `start` on the clock, `from` in the utterance
  #whole = false;
  #ended = Promise.withResolvers();

  constructor(context) {
    this.#context = context;
  }

  /** Resolves when all has been played, or when it was stopped. */
  get ended() {
    return this.#ended.promise;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** Seconds of the utterance that have been heard. */
  get position() {
    const delay = this.#context.outputLatency || 0;
    const now = (this.#context.currentTime - delay) * SAMPLE_RATE;
    const current = this.#parts.findLast((part) => part.start <= now);
    if (!current) return 0;
    return (current.from + Math.min(now - current.start, current.length)) / SAMPLE_RATE;
  }

  /** Whether everything that has arrived has been heard, and more is to come. */
  get starved() {
    return !this.#whole && this.played === this.scheduled;
  }

  add(samples) {
    if (!samples.length) return;
    if (!this.samples) this.silence = firstAudible(samples) / SAMPLE_RATE;
    const source = this.#context.createBufferSource();
    source.buffer = this.#context.createBuffer(1, samples.length, SAMPLE_RATE);
    source.buffer.copyToChannel(samples, 0);
    source.connect(this.#context.destination);
    const start = this.#next(); // only now: the clock does not wait for this code
    source.start(start / SAMPLE_RATE);
    const part = { start, from: this.samples, length: samples.length, source };
    source.onended = () => this.#onEnded(part);
    this.#parts.push(part);
    this.samples += samples.length;
    this.scheduled += 1;
  }

  /** Nothing more will be added. */
  finish() {
    this.#whole = true;
    this.#settle();
  }

  stop() {
    this.#whole = true;
    for (const { source } of this.#parts) source?.stop();
    this.#ended.resolve();
  }

  #next() {
    const now = Math.ceil(this.#context.currentTime * SAMPLE_RATE);
    const last = this.#parts.at(-1);
    if (!last) return now + LEAD;
    const end = last.start + last.length;
    if (end >= now) return end;
    this.gaps += 1;
    return now + LEAD;
  }

  #onEnded(part) {
    part.source = null; // frees its samples
    this.played += 1;
    this.#settle();
  }

  #settle() {
    if (this.#whole && this.played === this.scheduled) this.#ended.resolve();
  }
}

/** The way to the loudspeaker. Call `begin` from a click or a key press: browsers allow sound only then. */
export class Player {
  #context = null;

  begin() {
    this.#context ??= new AudioContext({ sampleRate: SAMPLE_RATE });
    this.#context.resume();
    return new Playback(this.#context);
  }

  rest() {
    this.#context?.suspend();
  }
}
