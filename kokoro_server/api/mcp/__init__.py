"""The Model Context Protocol: speech as tools of a language model, over HTTP at `/mcp` and in `kokoro-server mcp`.

A tool makes requests of the HTTP API, to a server elsewhere or to the application in the same process, so that its
checks, limits and errors are those of the endpoints. `sdk` is the only module here that imports the official SDK.
"""
