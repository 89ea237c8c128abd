// The page: what the buttons do.

import { getJson, inWords, postForFile, speak } from "./api.js";
import { BookTab } from "./book/tab.js";
import { save } from "./dom.js";
import { Editor, Words } from "./editor.js";
import { Monitor } from "./monitor.js";
import { Mouth } from "./mouth.js";
import { Player } from "./player.js";
import { Readings } from "./readings.js";
import { Settings } from "./settings.js";
import { Tabs } from "./tabs.js";
import { VoicePicker } from "./voices.js";
import { Waveform } from "./waveform.js";
import { clock } from "./words.js";

const READ_AHEAD = 60; // seconds of sound kept ready; the server then makes no more than the listener hears
const CHARACTERS_PER_SECOND = 14; // roughly; only for the first estimate of a length
const SUBTITLES = ["srt", "vtt"];

const find = (selector) => document.querySelector(selector);
const editor = new Editor(find("#text"), find("#copy"));
const waveform = new Waveform(find("#waveform"));
const mouth = new Mouth(find("#mouth"));
const monitor = new Monitor();
const player = new Player();
const settings = new Settings();
const voices = new VoicePicker();
const book = new BookTab(offerVoices);

const readings = new Readings(editor, find("#text"), find("#reading"), (text) =>
  voices.voice ? { text, voice: voices.voice, unspeakable: "skip" } : null,
);

let current = null; // the speech that plays or played last: {playback, words, control, text, source, phase, delay}

// For tests/browser.
window.kokoro = {
  get state() {
    const { scheduled, played, gaps, samples } = current?.playback ?? {};
    const phase = current?.phase ?? "idle";
    return { phase, scheduled, played, gaps, samples, charts: monitor.readings, readings: readings.count };
  },
};

async function say(text, source) {
  stop();
  complain(null);
  if (!text.trim()) {
    complain("There is nothing to say yet. Type or paste some text first.");
    editor.focus();
    return;
  }
  if (!voices.voice && !(await offerVoices())) return;
  const speaking = { playback: player.begin(), words: new Words(text), control: new AbortController(), text, source };
  current = speaking;
  enter("waiting");
  mouth.clear();
  waveform.clear(text.length / CHARACTERS_PER_SECOND / settings.speed);
  follow(speaking, performance.now());
  try {
    await hear(speaking);
    if (isBusy(speaking)) enter("finished");
  } catch (error) {
    if (speaking.control.signal.aborted) return;
    complain(inWords(error));
    // Sound that came before the failure plays to its end.
    speaking.playback.finish();
    await speaking.playback.ended;
    if (isBusy(speaking)) enter("failed");
  }
}

async function hear({ playback, words, control, text }) {
  for await (const part of speak(request(text), control.signal)) {
    control.signal.throwIfAborted();
    playback.add(part.samples);
    waveform.add(part.samples);
    words.add(part.words);
    mouth.add(part.visemes);
    while (playback.seconds - playback.position > READ_AHEAD && !control.signal.aborted) await pause(250);
  }
  playback.finish();
  waveform.finish();
  await playback.ended;
}

function stop() {
  if (!isBusy()) return;
  current.control.abort();
  current.playback.stop();
  enter("stopped");
}

function isBusy(speaking = current) {
  return speaking?.phase === "waiting" || speaking?.phase === "speaking";
}

function request(text) {
  return { text, voice: voices.voice, ...settings.values };
}

const PHASES = {
  waiting: () => "Asking the server…",
  speaking: (speaking) => `Speaking. ${firstSound(speaking)}`,
  finished: (speaking) => `Finished: ${speaking.playback.seconds.toFixed(1)} s of sound. ${firstSound(speaking)}`,
  stopped: () => "Stopped.",
  failed: () => "",
};

/** When the first audio came, and when the silence that it begins with was over. */
function firstSound({ delay, playback }) {
  if (delay === undefined) return ""; // nothing was heard
  const audible = delay + playback.silence;
  return `First audio after ${delay.toFixed(2)} s, first audible sound after ${audible.toFixed(2)} s.`;
}

function enter(phase) {
  current.phase = phase;
  const busy = isBusy();
  const button = find("#speak");
  button.dataset.phase = busy ? phase : "idle";
  button.querySelector(".words").textContent = busy ? "Stop" : "Speak";
  announce(PHASES[phase](current));
  if (!busy) player.rest();
}

/** Moves the mark, the waveform and the clock with the sound, frame by frame until it ends. */
function follow(speaking, asked) {
  if (speaking !== current) return;
  const { playback, words, text, source } = speaking;
  const heard = speaking.phase === "finished" ? playback.seconds : playback.position;
  if (speaking.phase === "waiting" && heard > 0) {
    speaking.delay = (performance.now() - asked) / 1000;
    enter("speaking");
  }
  const marks = isBusy() && source === "editor" && text === editor.text;
  editor.mark(marks ? words.at(heard) : null);
  if (isBusy()) mouth.follow(heard);
  else mouth.clear();
  waveform.draw(heard);
  find("#time").textContent = `${clock(heard)} / ${clock(playback.seconds)}`;
  find("#player").classList.toggle("starved", speaking.phase === "speaking" && playback.starved);
  if (isBusy()) requestAnimationFrame(() => follow(speaking, asked));
}

async function download(format, button) {
  complain(null);
  if (!voices.voice && !(await offerVoices())) return;
  button.disabled = true;
  announce(`Making the ${format} file…`);
  try {
    const path = SUBTITLES.includes(format) ? "tts/captioned" : "tts";
    const { name, content } = await postForFile(path, { ...request(editor.text), format });
    save(name, content);
    announce(`Saved ${name}.`);
  } catch (error) {
    complain(inWords(error));
    announce("");
  } finally {
    button.disabled = false;
  }
}

function announce(words) {
  find("#status").textContent = words;
}

function complain(words) {
  const box = find("#error");
  box.textContent = words ?? "";
  box.hidden = !words;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Whether any voices can be chosen. */
async function offerVoices() {
  try {
    const offered = await getJson("voices");
    voices.offer(offered);
    book.offer(offered.voices);
    readings.refresh();
    return true;
  } catch (error) {
    complain(inWords(error));
    return false;
  }
}

find("#speech").addEventListener("submit", (event) => {
  event.preventDefault();
  if (isBusy()) stop();
  else say(editor.text, "editor");
});
find("#speech").addEventListener("change", ({ target }) => {
  if (target.matches("select")) readings.refresh(); // another voice may have another language
});
find("#sample").addEventListener("click", () => say(voices.sample, "sample"));
find("#downloads").addEventListener("click", ({ target }) => {
  if (target.dataset.format) download(target.dataset.format, target);
});
document.addEventListener("keydown", (event) => {
  if (tabs.shown !== "text") return;
  if (event.key === "Escape") stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault(); // or the form would be submitted too
    say(editor.text, "editor");
  }
});
addEventListener("pagehide", stop);

const tabs = new Tabs((shown) => book.show(shown === "book"));
offerVoices();
monitor.run();
