"""uvicorn's WebSocket, which sends audio only a few seconds ahead of what its client has read.

Without that, megabytes of audio wait in the buffers of both systems for a client that reads as it plays: a keepalive
ping waits behind them until the client counts as dead, and what a `cancel` is to silence has left long ago. The server
cannot see these buffers, so it asks the client: it sends a ping after every bit of audio, which the client's WebSocket
library answers when it gets there.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

LEAD = 5.0  # seconds of audio that are sent ahead of the last ping that was answered
MARK_EVERY = 0.5  # seconds of audio from one such ping to the next
CLOSE_GRACE = 5.0  # seconds for a close frame to reach a client that does not answer; then its connection is dropped


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A message may have `seconds`, the length of its audio: it waits until it is less than LEAD ahead."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sent = 0.0  # seconds of audio
        self._marked = 0.0  # those before the last ping
        self._read = 0.0  # those before the last ping that was answered
        self._marks: dict[bytes, float] = {}  # seconds before each ping that is not answered
        self._numbers = itertools.count()
        self._progress = asyncio.Event()
        self._refused = False

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        """Close on what is too large or no message. The rest of it is read and thrown away for a while.

        Closed with bytes unread, the connection would be reset, and the client would not learn why.
        """
        closing = self.conn.close_sent
        assert closing is not None
        self._refused = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": closing.code, "reason": closing.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.write_eof()
        self.close_timer = self.loop.call_later(CLOSE_GRACE, self.transport.close)

    def send_receive_event_to_app(self) -> None:
        """Refuse what is not UTF-8 here: uvicorn would log it with a traceback, as if the server were at fault."""
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            self.conn.send_close(CloseCode.INVALID_DATA, "a text message must be UTF-8")
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        if self._refused:
            raise ClientDisconnected
        seconds = message.get("seconds", 0.0)
        while seconds and self._sent - self._read >= LEAD and not self.disconnected:
            self._progress.clear()
            await self._progress.wait()
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # refused; uvicorn would log an error as if there had been no answer
        self._sent += seconds
        if self._sent - self._marked >= MARK_EVERY and not self.transport.is_closing():
            self._mark()

    def _mark(self) -> None:
        payload = b"audio %d" % next(self._numbers)
        self._marked = self._marks[payload] = self._sent
        self.conn.send_ping(payload)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.transport.is_closing():
            self.scope["extensions"]["kokoro.connection"] = {"abort": self.transport.abort}

    def handle_events(self) -> None:
        try:
            super().handle_events()
        except InvalidState:  # bad UTF-8, followed by the client's close frame
            self.transport.close()

    def handle_ping(self) -> None:
        if not self._refused:
            super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        read = self._marks.get(bytes(event.data))
        if read is None:
            super().handle_pong(event)
            return
        # A client that finds several pings may answer the last one alone.
        self._marks = {payload: seconds for payload, seconds in self._marks.items() if seconds > read}
        self._read = read
        self._progress.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._progress.set()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # `close` waits until all has been sent, which a client that does not read would put off for ever.
        self.loop.call_later(CLOSE_GRACE, self.transport.abort)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
