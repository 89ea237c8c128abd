"""`python -m kokoro_server.g2p.service`: how the speech server starts its own G2P service."""

from kokoro_server.runtime.subprocesses import StartReport

report = StartReport()  # before the imports, which take seconds

from kokoro_server.g2p.service.app import main  # noqa: E402

main(report)
