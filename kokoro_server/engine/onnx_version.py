"""In a file of its own: a server asks for it at every start and needs nothing else of the exporter."""

EXPORTER_VERSION = 4  # to be raised whenever a build would come out differently
