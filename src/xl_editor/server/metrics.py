"""What a Prometheus server reads at /metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from xl_editor.server.errors import ApiError

SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass
class Outcome:
    status: int = 499  # until there is another: that of one who left, whose answer nobody reads


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "xl_editor_requests", "Requests by operation and status.", ["operation", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "xl_editor_request_seconds",
            "From a request's arrival to its answer.",
            ["operation"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batch_texts = Histogram(
            "xl_editor_batch_texts", "Texts that were answered together.", buckets=TEXTS, registry=self.registry
        )
        self.waiting = Gauge("xl_editor_waiting_texts", "Texts in the queue.", registry=self.registry)

    @contextmanager
    def counting(self, operation: str) -> Iterator[Outcome]:
        """Counts and times a request."""
        began, outcome = time.monotonic(), Outcome()
        try:
            yield outcome
        except ApiError as error:
            outcome.status = error.status
            raise
        except Exception:
            outcome.status = 500
            raise
        finally:
            self.requests.labels(operation, outcome.status).inc()
            self.seconds.labels(operation).observe(time.monotonic() - began)

    def render(self) -> bytes:
        return generate_latest(self.registry)
