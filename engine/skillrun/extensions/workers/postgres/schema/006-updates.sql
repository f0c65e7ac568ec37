-- Most updates of a run change no indexed column: with free space on its page, they touch no index.
ALTER TABLE runs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE tickets SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
