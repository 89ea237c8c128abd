"""The voice of OpenAI's agents. OPENAI_BASE_URL is its address."""

import asyncio
import json

from agents.voice import OpenAIVoiceModelProvider, TTSModelSettings


async def main() -> None:
    model = OpenAIVoiceModelProvider().get_tts_model("gpt-4o-mini-tts")
    settings = TTSModelSettings(voice="af_heart", instructions="Speak kindly.")
    heard = [part async for part in model.run("Hello from a program.", settings)]
    print(json.dumps({"bytes": sum(map(len, heard))}))


asyncio.run(main())
