// Requests to the server of this page, and its errors in words.

import { apiKey, askForKey, authorization } from "./keys.js";
import { upload } from "./upload.js";

export const BROKEN_OFF = "The connection broke off before the end. What you heard is not the whole text.";
export const UNREACHABLE = "The server cannot be reached. Check that it is running, then try again.";
const NOT_SENT = "The file could not be sent. Either the server cannot be reached, or it takes no file of this size.";

/** `message` is for people. `status` and `field` are the server's, if it sent them. */
export class ServerError extends Error {
  constructor(message, { status = null, field = null } = {}) {
    super(message);
    Object.assign(this, { status, field });
  }
}

/** The server wants a key, and does not accept the one there is. */
export class KeyNeeded extends ServerError {}

let refused = null; // the key that the server refused; "" is none

export async function getJson(path) {
  const response = await request(path, { cache: "no-store" });
  return response.json();
}

/** Like `getJson`, for requests in the background: does not ask for a key. */
export async function getJsonQuietly(path) {
  const response = await requestQuietly(path, { cache: "no-store" });
  return response.json();
}

/** Like `getJsonQuietly`, for a request with a body. */
export async function postQuietly(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const response = await requestQuietly(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  return response.json();
}

export async function requestQuietly(path, options) {
  if (apiKey() === refused) throw new KeyNeeded();
  const response = await authorized(path, options);
  if (!response.ok) throw response.status === 401 ? new KeyNeeded() : await refusal(response);
  return response;
}

/** Fetches a file: its content, and the name that the server gives it. */
export async function postForFile(path, body) {
  const response = await post(path, body, {});
  const name = /filename="?([\w.-]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  try {
    return { name: name ?? "speech", content: await response.blob() };
  } catch {
    throw new ServerError("The connection broke off before the file was whole.");
  }
}

/**
 * Has `body` spoken: yields `{samples, words, visemes}` as they are made; `samples` are floats at 24 kHz.
 * Throws unless the server marks the end.
 */
export async function* speak(body, signal) {
  const headers = { Accept: "application/x-ndjson" };
  const asked = { ...body, format: "pcm", visemes: "oculus" };
  const response = await post("tts/captioned", asked, { headers, signal });
  for await (const line of lines(response, signal)) {
    const event = JSON.parse(line);
    if (event.type === "done") return;
    if (event.type === "error") throw new ServerError(`The speech broke off: ${event.message}`);
    yield { samples: decode(event.audio), words: event.words, visemes: event.visemes };
  }
  throw new ServerError(BROKEN_OFF);
}

function post(path, body, { headers = {}, signal }) {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal,
  });
}

/** The server's answer, if it is a success. `onUpload` is called with the share of the body that has been sent. */
export async function request(path, options) {
  const response = await send(path, options);
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The server's answer, whatever it is. If the server wants a key, the user is asked until it accepts one. */
export async function send(path, options) {
  for (;;) {
    const response = await authorized(path, options);
    const isNew = response.status === 401 && (apiKey() !== refused || (await askForKey()));
    if (!isNew) return response;
  }
}

async function authorized(path, options) {
  const key = apiKey();
  const transport = options.onUpload ? upload : fetch;
  try {
    const response = await transport(path, { ...options, headers: { ...options.headers, ...authorization() } });
    if (response.status === 401) refused = key;
    return response;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ServerError(options.onUpload ? NOT_SENT : UNREACHABLE);
  }
}

async function refusal(response) {
  const answer = await response.json().catch(() => null);
  const message = answer?.error?.message ?? `The server answered with status ${response.status}.`;
  const seconds = response.headers.get("Retry-After");
  const words = sentence(message) + (seconds ? ` Try again in ${seconds} s.` : "");
  return new ServerError(words, { status: response.status, field: answer?.error?.field });
}

/** An error in words for people. */
export function inWords(error) {
  if (error instanceof ServerError) return error.message;
  console.error(error);
  return `Something went wrong on this page: ${error.message}`;
}

export function sentence(text) {
  // A first word with a mark after it is the name of a field or a file: it keeps its case.
  const begun = /^\p{Ll}[\p{L}']* /u.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** Yields the lines of an answer as they come. */
export async function* lines(response, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts;
    }
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError(BROKEN_OFF);
  }
}

/** Base64 of 16-bit little-endian samples as floats. */
function decode(base64) {
  const text = atob(base64);
  const samples = new Float32Array(text.length >> 1);
  for (let i = 0; i < samples.length; i += 1) {
    const value = text.charCodeAt(2 * i) | (text.charCodeAt(2 * i + 1) << 8);
    samples[i] = (value > 32767 ? value - 65536 : value) / 32768;
  }
  return samples;
}
