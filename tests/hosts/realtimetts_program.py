"""RealtimeTTS's engine for OpenAI, as its player would ask it. OPENAI_BASE_URL is its address."""

import json
import queue

from RealtimeTTS.engines.openai_engine import OpenAIEngine

for format in ("mp3", "pcm"):
    engine = OpenAIEngine(voice="af_heart", response_format=format)
    engine.queue = queue.Queue()
    engine.synthesize("Hello from a program.")
    heard = sum(len(part) for part in engine.queue.queue)
    print(json.dumps({"bytes": heard, "rate": engine.get_stream_info()[2]}))
