"""ElevenLabs' stock voices, by their public ids: clients have them built in. Each stands for one of ours."""

from __future__ import annotations

from kokoro_server.config.defaults import BUILT_IN_VOICE
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import HeldVoice, VoiceBook

# Our voices and the ids that they stand for: of the same gender and, where possible, the same accent.
_IDS = {
    "af_heart": "21m00Tcm4TlvDq8ikWAM EXAVITQu4vr4xnSDxMaL LcfcDJNUP1GQjkzn1xUU XrExE9yKIg1WjnnlVkGX",
    "af_bella": "9BWtsMINqrJLrRacOk9x AZnzlk1XvdvUeBnXmlld MF3mGyEYCl7XYWbV9V6O cgSgspJ2msm6clMCkdW9",
    "af_sarah": "FGY2WhTYpPnrIDTdsKH5 oWAxZDx7w5VEj9dCyTzz pMsXgVXv3BLzUgSXRplE",
    "af_nicole": "piTKgcLEGmPE4e6mEKli",
    "af_kore": "SAz9YHcvj6GT2YYXdXww jBpfuIE2acCO8z3wKNLl jsCqWAovK2LkecY7zXl4 z9fAnlkpzviPz146aGWa "
    "zrHiDhphv9ZnVXBqCLjz",
    "bf_emma": "Xb7hH8MSUJpSbSDYk0k2 XB0fDUnXU5powFXDhCwa",
    "bf_isabella": "pFZP5JQG7iQjIQuC4Bku ThT5KcBeYPX3keUQqHPh",
    "am_michael": "flq6f7yk4E4fJM5XTYuZ nPczCjzI2devNBz1zQrb pNInz6obpgDQGcFmaJgB pqHfZKP75CvOlQylNhV4 "
    "29vD33N1CtxCmqQRPOHJ 5Q0t7uMcjvnagumLfvZi GBv7mTt0atIp3Br8iCZE",
    "am_fenrir": "2EiwWnXFnvU5JabPnv8n CwhRBWXzGAHq8TQ4Fs17 N2lVS1w4EtoT3dr4eOWO VR6AewLTigWG4xSOukaG "
    "ODq5zmih8GrVes37Dizd cjVigY5qzO86Huf0OWal",
    "am_puck": "ErXwobaYiN019PkySvjV SOYHLrjzK2X1ezoPC6cr TX3LPaxmHKxFdv7VOQHJ TxGEqnHWrfWFTfGW9XjX "
    "bIHbv24MWmeRgasZH58o bVMeCyTHy58xNoL34h3p g5CIjZEefAph4nQFvHAz iP95p4xoKVk53GoZ742B t0jbNlBVZ17f02VDIeMI "
    "yoZ06aMxZJJ28mfd3POQ zcAOhNBS3c14rBihAFp1",
    "bm_george": "JBFqnCBsd6RMkjVDRZzb onwK4e9ZLuTAKqWW03F9 Zlb1dXrM653N07WRdFW3",
    "bm_fable": "CYw3kZ02Hs0563khs1Fj D38z5RcWu1voky8WS1ja IKne3meq5aSn9XLyUdCD ZQe5CZNOzWyzPSCn5a3c",
}
STOCK = {theirs: ours for ours, ids in _IDS.items() for theirs in ids.split()}


def ours(voice_id: str, book: VoiceBook) -> str:
    """Our voice for the id of a stock voice. Any other id, and a custom voice's, is returned unchanged."""
    return voice_id if voice_id in book.names() else STOCK.get(voice_id, voice_id)


async def hold(voice_id: str, model_id: str | None, services: Services) -> HeldVoice:
    """The voice of an id, in a model of MODELS_PATH if `model_id` names one: a stock voice is then its default."""
    name = ours(voice_id, services.voices)
    full = services.synthesizer.full_name(voice_id if name == voice_id else BUILT_IN_VOICE, model_id)
    return await services.voices.hold(name if full == BUILT_IN_VOICE else full)
