// Sends a body as `fetch` does, and reports how much of it is sent, which `fetch` cannot.

/** `onUpload` gets the share of the body that has been sent, from 0 to 1. */
export function upload(path, { headers, body, signal, onUpload }) {
  signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers();
  const request = new XMLHttpRequest();
  request.open("POST", path);
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.upload.onprogress = ({ loaded, total }) => onUpload(total ? loaded / total : 0);
  request.onload = () => resolve(answer(request));
  request.onerror = () => reject(new TypeError("the connection broke off"));
  request.onabort = () => reject(signal.reason);
  signal?.addEventListener("abort", () => request.abort());
  request.send(body);
  return promise;
}

function answer(request) {
  const seconds = request.getResponseHeader("Retry-After");
  return new Response(request.response, { status: request.status, headers: seconds ? { "Retry-After": seconds } : {} });
}
