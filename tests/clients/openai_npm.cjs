// What OpenAI's npm package makes of a server, as JSON: node openai_npm.cjs <base URL> <text>
// It is run in the folder where the package is installed.

const { createHash } = require("node:crypto");
const { createRequire } = require("node:module");
const { default: OpenAI } = createRequire(process.cwd() + "/")("openai");

const [baseURL, input] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const asked = { model: "gpt-4o-mini-tts", voice: "af_heart", input };

const sha256 = (data) => createHash("sha256").update(data).digest("hex");

async function bytes(options) {
  const response = await client.audio.speech.create({ ...asked, ...options });
  return Buffer.from(await response.arrayBuffer());
}

async function chunks(options) {
  const response = await client.audio.speech.create({ ...asked, ...options });
  let count = 0;
  for await (const _ of response.body) count += 1;
  return count;
}

async function events() {
  const text = (await bytes({ response_format: "pcm", stream_format: "sse" })).toString();
  return text.split("\n").filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
}

async function failure(options) {
  try {
    await bytes(options);
  } catch (error) {
    const { status, type, param, code } = error;
    return { name: error.constructor.name, status, type, param, code };
  }
  return null;
}

async function main() {
  const formats = {};
  for (const response_format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
    formats[response_format] = (await bytes({ response_format })).toString("base64");
  }
  const found = await events();
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  return {
    formats,
    chunks: await chunks({ response_format: "pcm", input: input.repeat(20) }),
    deltas: sha256(Buffer.concat(found.slice(0, -1).map((event) => Buffer.from(event.audio, "base64")))),
    done: found.at(-1).type,
    models,
    failures: {
      voice: await failure({ voice: "nobody" }),
    },
  };
}

main().then((result) => process.stdout.write(JSON.stringify(result)));
