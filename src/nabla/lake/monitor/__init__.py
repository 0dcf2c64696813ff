"""What others hear of a lake's events: logs, metrics, OpenLineage, OpenTelemetry, progress displays."""
