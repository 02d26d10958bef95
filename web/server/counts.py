"""What the server cut off or refused, for the metrics page."""

from prometheus_client import Counter

REFUSALS = Counter(
    "osmo_web_refusals",
    "Requests and connections cut off or refused, by reason: headers_large, headers_late, body_late, "
    "answer_unread, address_connections, connections, memory, threads_busy.",
    ("reason",),
)
