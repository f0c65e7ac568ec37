-- That a run was answered while somebody held it: it does not wait then, once it is let go.
ALTER TABLE runs ADD COLUMN again boolean NOT NULL DEFAULT false;
