"""`python -m kokoro_server.g2p.service`: how the speech server starts its own G2P service."""

from kokoro_server.g2p.service.app import main

main()
