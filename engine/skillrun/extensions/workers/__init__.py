"""Runs in a shared Postgres store: workers that execute them, queues, limits of parallel calls, and telemetry.

The run's row in the store is the only record of who executes it.
"""
