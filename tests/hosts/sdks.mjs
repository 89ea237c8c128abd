// What one npm package makes of a server, as JSON: node sdks.mjs NAME http://host:port
// It is run from the folder where the packages are installed. docs/start/clients.md has the same calls.

const [name, url] = process.argv.slice(2);
const TEXT = "Hello from a program.";
const socket = url.replace(/^http/, "ws");
const wav = { container: "wav", encoding: "pcm_s16le", sample_rate: 24000 };

async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

const audio = (data) => Buffer.from(data).toString("base64");

// The address of the service is written into @ai-sdk/elevenlabs and @ai-sdk/deepgram.
const moved = (prefix) => (input, init) => {
  const { pathname, search } = new URL(input);
  return fetch(`${url}${prefix}${pathname}${search}`, init);
};

async function generated(model, voice, text = TEXT) {
  const { generateSpeech } = await import("ai");
  const { audio: found } = await generateSpeech({ model, voice, text, maxRetries: 0 });
  return { mp3: audio(found.uint8Array), type: found.mediaType };
}

const programs = {
  async openai() {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
    const speech = await client.audio.speech.create({ model: "gpt-4o-mini-tts", voice: "af_heart", input: TEXT });
    return { mp3: audio(await speech.arrayBuffer()) };
  },

  async ai_openai() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).speech("tts-1");
    const silence = await generated(model, "af_heart", "🎉"); // one sentence of many must not end a reading
    return { ...(await generated(model, "af_heart")), silence: silence.mp3 };
  },

  async ai_elevenlabs() {
    const { createElevenLabs } = await import("@ai-sdk/elevenlabs");
    const eleven = createElevenLabs({ apiKey: "none", fetch: moved("/elevenlabs") });
    return generated(eleven.speech("eleven_multilingual_v2"), "af_heart");
  },

  async ai_deepgram() {
    const { createDeepgram } = await import("@ai-sdk/deepgram");
    const deepgram = createDeepgram({ apiKey: "none", fetch: moved("/deepgram") });
    return generated(deepgram.speech("aura-2-thalia-en"));
  },

  async elevenlabs() {
    const { ElevenLabsClient } = await import("@elevenlabs/elevenlabs-js");
    const client = new ElevenLabsClient({ baseUrl: `${url}/elevenlabs`, apiKey: "none" });
    const missing = await client.textToSpeech.convert("nobody", { text: TEXT }).catch((error) => error.statusCode);
    return {
      mp3: audio(await all(await client.textToSpeech.convert("21m00Tcm4TlvDq8ikWAM", { text: TEXT }))),
      characters: (await client.textToSpeech.convertWithTimestamps("af_heart", { text: TEXT })).alignment.characters,
      voices: (await client.voices.getAll()).voices.length,
      models: (await client.models.list()).length,
      tier: (await client.user.get()).subscription.tier,
      missing,
    };
  },

  async deepgram() {
    const { DeepgramClient } = await import("@deepgram/sdk");
    const environment = { base: `${url}/deepgram`, production: `${socket}/deepgram`, agent: socket, agentRest: url };
    const client = new DeepgramClient({ apiKey: "none", environment });
    const model = "aura-2-thalia-en";
    const speech = await client.speak.v1.audio.generate({ text: TEXT, model });
    const connection = await client.speak.v1.connect({ model, encoding: "linear16", sample_rate: 24000 });
    let bytes = 0;
    const flushed = new Promise((resolve, reject) => {
      connection.on("message", (message) => {
        if (message instanceof Blob) bytes += message.size;
        else if (message.type === "Flushed") resolve();
      });
      connection.on("error", reject);
    });
    connection.connect();
    await connection.waitForOpen();
    connection.sendText({ type: "Speak", text: TEXT });
    connection.sendFlush({ type: "Flush" });
    await flushed;
    connection.close();
    return { mp3: audio(await speech.arrayBuffer()), bytes };
  },

  async cartesia() {
    const { default: Cartesia } = await import("@cartesia/cartesia-js");
    const client = new Cartesia({ apiKey: "none", baseURL: `${url}/cartesia` });
    const voice = { mode: "id", id: "af_heart" };
    const speech = await client.tts.generate({ model_id: "sonic-3", transcript: TEXT, voice, output_format: wav });
    const voices = [];
    for await (const { id } of client.voices.list()) voices.push(id);
    return { wav: audio(await speech.arrayBuffer()), voices: voices.length };
  },
};

process.stdout.write(JSON.stringify(await programs[name]()));
process.exit(0);
