-- Contents that nobody refers to are found, and removed, without a look through all files; none that was just sent.
CREATE INDEX files_by_blob ON files (sha);
CREATE INDEX runs_by_bundle ON runs (bundle);
ALTER TABLE blobs ADD COLUMN made_at timestamptz NOT NULL DEFAULT now();
