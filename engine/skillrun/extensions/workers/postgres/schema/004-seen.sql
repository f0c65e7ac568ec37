-- For the list of workers: the lease of each, and its version.
ALTER TABLE workers
    ADD COLUMN lease double precision NOT NULL DEFAULT 30,
    ADD COLUMN version text NOT NULL DEFAULT '';

-- For the newest runs of one status, among any number of others.
CREATE INDEX runs_by_status ON runs (status, id DESC);
