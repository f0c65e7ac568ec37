-- That a run was answered while somebody held it: it does not wait then, once it is let go.
ALTER TABLE runs ADD COLUMN again boolean NOT NULL DEFAULT false;

-- When something last came of it: a reply, or that it was taken up for the first time.
ALTER TABLE runs ADD COLUMN fruitful_at timestamptz NOT NULL DEFAULT now();
