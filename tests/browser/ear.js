// Listens in on a page from outside its own code: which sounds it schedules, and which words it marks, in order.

window.ear = { sounds: [], stopped: 0, words: [] };

const { start, stop } = AudioBufferSourceNode.prototype;
AudioBufferSourceNode.prototype.start = function (when) {
  const rate = this.buffer.sampleRate;
  window.ear.sounds.push({ when, samples: this.buffer.length, rate, now: this.context.currentTime });
  window.ear.contextRate = this.context.sampleRate;
  return start.call(this, when);
};
AudioBufferSourceNode.prototype.stop = function (...when) {
  window.ear.stopped += 1;
  return stop.apply(this, when);
};

const { set } = HighlightRegistry.prototype;
HighlightRegistry.prototype.set = function (name, highlight) {
  window.ear.words.push(...[...highlight].map((range) => range.toString()));
  return set.call(this, name, highlight);
};
