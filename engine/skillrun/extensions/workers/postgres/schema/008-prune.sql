-- For pruning: finds unused contents without a scan of all files, and keeps those that were just sent.
CREATE INDEX files_by_blob ON files (sha);
CREATE INDEX runs_by_bundle ON runs (bundle);
ALTER TABLE blobs ADD COLUMN made_at timestamptz NOT NULL DEFAULT now();
