// The Book tab's requests for jobs.

import { getJson, lines, request, requestQuietly } from "../api.js";

export function getJob(id) {
  return getJson(`jobs/${id}`);
}

/** The server's preview of a file. `onUpload` is called with the share that has been sent. */
export async function preview(file, { signal, onUpload }) {
  const body = new FormData();
  body.append("file", file);
  const response = await request("jobs/preview", { method: "POST", body, signal, onUpload });
  return response.json();
}

/** The new job. */
export async function createJob(body, { signal, onUpload }) {
  const response = await request("jobs", { method: "POST", body, signal, onUpload });
  return response.json();
}

export async function resumeJob(id) {
  const response = await request(`jobs/${id}/resume`, { method: "POST" });
  return response.json();
}

export async function deleteJob(id) {
  await request(`jobs/${id}`, { method: "DELETE" });
}

export async function getFile(path, signal) {
  const response = await request(path, { signal });
  return response.blob();
}

/** The same without asking for a key. */
export async function getFileQuietly(path) {
  const response = await requestQuietly(path, {});
  return response.blob();
}

/** Yields `{event, data}` as the job changes, until it has ended. Does not ask for a key. */
export async function* jobEvents(id, signal) {
  // An EventSource could not send the key.
  const response = await requestQuietly(`jobs/${id}/events`, { cache: "no-store", signal });
  let [event, data] = ["message", ""];
  for await (const line of lines(response, signal)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line.trimEnd());
    if (field === "event") event = value;
    else if (field === "data") data += value;
    else if (!field && !value && data) {
      yield { event, data: JSON.parse(data) };
      [event, data] = ["message", ""];
    }
  }
}
