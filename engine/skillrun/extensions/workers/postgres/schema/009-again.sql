-- The run was answered while a worker held it, so it is queued when it is released.
ALTER TABLE runs ADD COLUMN again boolean NOT NULL DEFAULT false;

-- The time of the last reply, or of the first claim.
ALTER TABLE runs ADD COLUMN fruitful_at timestamptz NOT NULL DEFAULT now();
