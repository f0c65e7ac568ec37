-- What any worker needs to execute a run, and when it may start.
ALTER TABLE runs
    ADD COLUMN workflow text NOT NULL DEFAULT '',
    ADD COLUMN bundle text REFERENCES blobs,
    ADD COLUMN request jsonb,
    ADD COLUMN priority integer NOT NULL DEFAULT 0,
    ADD COLUMN not_before timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN takes integer NOT NULL DEFAULT 0,
    ADD COLUMN reason text NOT NULL DEFAULT '',
    ADD COLUMN ended_at timestamptz;

-- For the sweep: runs that may be executed, and runs whose lease has expired.
CREATE INDEX runs_queued ON runs (priority DESC, id) WHERE status = 'queued';
CREATE INDEX runs_running ON runs (lease_until) WHERE status = 'running';

CREATE TABLE workers (
    name text PRIMARY KEY,
    host text NOT NULL,
    process integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    most integer NOT NULL,
    draining boolean NOT NULL DEFAULT false
);
