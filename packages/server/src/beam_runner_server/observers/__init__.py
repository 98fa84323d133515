"""Extensions that export data about jobs to monitoring systems (OpenTelemetry, OpenLineage)."""
