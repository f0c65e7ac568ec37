-- The row of a run is its queue entry, lock, fence and witness. Every statement that writes for a run checks its epoch.
CREATE TABLE runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    status text NOT NULL DEFAULT 'new',
    epoch bigint NOT NULL DEFAULT 0,
    owner text NOT NULL DEFAULT '',
    lease_until timestamptz,
    records integer NOT NULL DEFAULT 0,
    chain bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    edits bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE records (
    run bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq integer NOT NULL,
    kind text NOT NULL,
    address text NOT NULL,
    fingerprint text NOT NULL,
    body bytea NOT NULL,
    chain bytea NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE blobs (
    sha text PRIMARY KEY,
    content bytea NOT NULL
);

-- A row without a hash is a folder.
CREATE TABLE files (
    run bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    path text NOT NULL,
    sha text REFERENCES blobs,
    PRIMARY KEY (run, path)
);

-- The transcript, for users; no evaluation reads it.
CREATE TABLE events (
    run bigint NOT NULL REFERENCES runs ON DELETE CASCADE,
    number bigint GENERATED ALWAYS AS IDENTITY,
    line text NOT NULL,
    PRIMARY KEY (run, number)
);
