"""`python -m kokoro_server` is the `kokoro-server` command."""

import sys

from kokoro_server.cli.main import main

sys.exit(main())
