"""Where jobs are kept if no setting says so. Apart from the service: a server asks before it imports that."""

from __future__ import annotations

import logging

from platformdirs import user_data_path

from kokoro_server.config.settings import Settings
from kokoro_server.errors import SetupError
from kokoro_server.longform.jobs.store import JobStore

log = logging.getLogger(__name__)


def with_default_folder(settings: Settings) -> Settings:
    """The settings, with the user's data folder for jobs where none is named and that one can be written."""
    if settings.jobs_path is not None:
        return settings
    folder = user_data_path("kokoro-server", appauthor=False) / "jobs"
    try:
        JobStore(folder).close()
    except SetupError as error:
        log.info("jobs are off: %s", error.message)
        return settings
    return settings.model_copy(update={"jobs_path": folder})
