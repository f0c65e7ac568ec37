-- Who is there: a worker tells for how long its runs are left to it, and of which version it is.
ALTER TABLE workers
    ADD COLUMN lease double precision NOT NULL DEFAULT 30,
    ADD COLUMN version text NOT NULL DEFAULT '';

-- The newest runs of one status, among any number of others.
CREATE INDEX runs_by_status ON runs (status, id DESC);
