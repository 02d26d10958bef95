"""Real receivers of news on loopback: a web server that answers as it is set, and an SMTP server."""

import json
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class SlowServer:
    """It thinks ``hangs`` seconds about each message; ``answered`` counts those it has thought about."""

    def __init__(self, *, hangs=0.0):
        self.hangs, self.answered, self._over = hangs, 0, threading.Event()

    def think(self):
        self._over.wait(self.hangs)
        self.answered += 1

    def stop(self):
        self._over.set()


class Receiver(SlowServer):
    """What arrived at a web server, and its answers: ``status`` and ``headers``, or ``garbage``."""

    def __init__(self):
        super().__init__()
        self.requests, self.status, self.headers, self.garbage = [], 204, {}, b""

    @property
    def events(self):
        return [json.loads(body) for _, body in self.requests]

    @property
    def kinds(self):
        return [event["data"]["kind"] for event in self.events]


@contextmanager
def web_receiver(port=0):
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((dict(self.headers), body))
            receiver.think()
            if receiver.garbage:
                self.wfile.write(receiver.garbage)
                return
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with _served(ThreadingHTTPServer(("127.0.0.1", port), Handler), receiver) as bound:
        receiver.url = f"http://127.0.0.1:{bound}/hook"
        yield receiver


class Mailbox(SlowServer):
    """The messages that an SMTP server on ``port`` took."""

    def __init__(self, *, hangs):
        super().__init__(hangs=hangs)
        self.messages = []


@contextmanager
def mail_receiver(*, hangs=0.0):
    mailbox = Mailbox(hangs=hangs)

    class Session(socketserver.StreamRequestHandler):
        def handle(self):
            self._say("220 sink")
            while line := self.rfile.readline():
                verb = line[:4].upper()
                if verb == b"DATA":
                    self._say("354 go on")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    mailbox.messages.append(text.decode())
                    mailbox.think()
                self._say("221 bye" if verb == b"QUIT" else "250 ok")

        def _say(self, text):
            self.wfile.write(f"{text}\r\n".encode())

    with _served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session), mailbox) as mailbox.port:
        yield mailbox


@contextmanager
def _served(server, slow):
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        slow.stop()
        server.shutdown()
        server.server_close()
        thread.join(10)
