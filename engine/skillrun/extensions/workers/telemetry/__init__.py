"""What a run tells of itself to OpenTelemetry. It listens to events: nothing that is evaluated knows of it."""
