"""Runs in a shared Postgres store: workers that execute the runs, queues, limits on parallel calls, and telemetry.

The row of a run in the store is the only record of which worker executes the run.
"""
