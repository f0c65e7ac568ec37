-- Only workers that serve a run's queue execute it.
ALTER TABLE runs ADD COLUMN queue text NOT NULL DEFAULT 'default';
ALTER TABLE workers ADD COLUMN queues text[] NOT NULL DEFAULT ARRAY['default'];

-- For the sweep of a worker's queues: fast even if many runs wait in other queues.
CREATE INDEX runs_queued_in ON runs (queue, priority DESC, id) WHERE status = 'queued';
CREATE INDEX runs_running_in ON runs (queue, lease_until) WHERE status = 'running';
DROP INDEX runs_queued;
DROP INDEX runs_running;
