"""A collector of OpenTelemetry data on this machine, which receives OTLP over HTTP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

_REQUESTS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Collector:
    """The running collector with all requests that it received."""

    def __init__(self) -> None:
        self._received: list[Any] = []
        received = self._received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                received.append(_REQUESTS[self.path].FromString(body))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("localhost", 0), Handler)
        self.url = f"http://localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _iterate(self, *path: str) -> Iterator[Any]:
        found = [one for one in self._received if hasattr(one, path[0])]
        for name in path:
            found = [each for one in found for each in getattr(one, name)]
        return iter(found)

    def spans(self) -> list[Any]:
        return list(self._iterate("resource_spans", "scope_spans", "spans"))

    def logs(self) -> list[Any]:
        return list(self._iterate("resource_logs", "scope_logs", "log_records"))

    def points(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """Returns the attributes and values of all points of a metric."""
        found = []
        for metric in self._iterate("resource_metrics", "scope_metrics", "metrics"):
            if metric.name == name:
                data = metric.sum if metric.HasField("sum") else metric.gauge
                found += [
                    (attributes(one.attributes), getattr(one, one.WhichOneof("value")))
                    for one in data.data_points
                ]
        return found

    def resources(self) -> list[dict[str, Any]]:
        return [attributes(one.resource.attributes) for one in self._iterate("resource_spans")]


def attributes(found: list[KeyValue]) -> dict[str, Any]:
    return {one.key: _convert(one.value) for one in found}


def _convert(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_convert(one) for one in value.array_value.values]
    return getattr(value, kind)
