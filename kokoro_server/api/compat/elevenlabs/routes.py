"""ElevenLabs' API: all routes below a prefix; without it, those that are not also OpenAI's."""

from __future__ import annotations

from fastapi import APIRouter

from kokoro_server.api.compat.elevenlabs import catalog, dialogue, speech, websockets

PREFIX = "/elevenlabs"

router = APIRouter()
router.include_router(speech.router)
router.include_router(dialogue.router)
router.include_router(websockets.router)
router.include_router(catalog.router)

below_prefix = APIRouter(prefix=PREFIX)
below_prefix.include_router(router)
below_prefix.include_router(catalog.models_router)

bare = APIRouter(include_in_schema=False)
bare.include_router(router)
bare.include_router(catalog.keyed_models_router)
