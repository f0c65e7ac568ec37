-- Most updates of a run change no column that an index has: with room on its page they touch no index at all.
ALTER TABLE runs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE tickets SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
