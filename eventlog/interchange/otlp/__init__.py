"""OpenTelemetry GenAI spans as OTLP JSON, in and out."""
