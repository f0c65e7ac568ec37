-- The limit of parallel calls to a provider over all workers; without `most`, the row only records a pause.
CREATE TABLE limits (
    provider text PRIMARY KEY,
    most integer CHECK (most > 0),
    paused_until timestamptz NOT NULL DEFAULT '-infinity'
);

-- The held slots, and the waiting tickets in order. A ticket that its holder does not renew expires.
CREATE TABLE tickets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider text NOT NULL,
    holder text NOT NULL,
    is_held boolean NOT NULL DEFAULT false,
    lease_until timestamptz NOT NULL
);
CREATE INDEX tickets_waiting ON tickets (provider, id) WHERE NOT is_held;
CREATE INDEX tickets_held ON tickets (provider) WHERE is_held;

-- Every change of a provider's tickets locks its row of `limits` first, so that numbers are in order of request and counts
-- are exact. Times are from the clock, since a transaction may have waited for the lock.

-- Grant free slots to the oldest tickets, and notify their holders, except for the ticket `told`.
CREATE FUNCTION grant_slots(wanted text, told bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    asked limits;
    given tickets;
BEGIN
    SELECT * INTO asked FROM limits WHERE provider = wanted FOR UPDATE;
    DELETE FROM tickets WHERE provider = wanted AND lease_until < clock_timestamp();
    IF asked.paused_until > clock_timestamp() THEN
        RETURN;
    END IF;
    FOR given IN
        UPDATE tickets SET is_held = true WHERE id IN (
            SELECT id FROM tickets WHERE provider = wanted AND NOT is_held ORDER BY id
            LIMIT CASE WHEN asked.most IS NOT NULL THEN
                greatest(0, asked.most - (SELECT count(*) FROM tickets WHERE provider = wanted AND is_held))
            END
        ) RETURNING *
    LOOP
        IF given.id <> told THEN
            PERFORM pg_notify('skillrun_slots_' || given.holder, given.id::text);
        END IF;
    END LOOP;
END $$;

-- Take a ticket: returns it and whether it is a slot already; no row if the provider has no limit and no pause.
CREATE FUNCTION take_slot(wanted text, asker text, seconds double precision)
RETURNS TABLE (ticket bigint, granted boolean) LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    PERFORM 1 FROM limits WHERE provider = wanted AND (most IS NOT NULL OR paused_until > clock_timestamp());
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM limits WHERE provider = wanted FOR UPDATE;
    INSERT INTO tickets (provider, holder, lease_until)
    VALUES (wanted, asker, clock_timestamp() + make_interval(secs => seconds)) RETURNING id INTO number;
    PERFORM grant_slots(wanted, number);
    PERFORM pg_notify('skillrun_slots_' || asker, '') FROM limits
    WHERE provider = wanted AND paused_until > clock_timestamp();
    RETURN QUERY SELECT id, is_held FROM tickets WHERE id = number;
END $$;

CREATE FUNCTION give_slot(wanted text, number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM limits WHERE provider = wanted FOR UPDATE;
    DELETE FROM tickets WHERE id = number;
    PERFORM grant_slots(wanted);
END $$;

-- Renew tickets: returns those that still exist, whether each is a slot, and the seconds of its provider's pause.
CREATE FUNCTION keep_slots(numbers bigint[], seconds double precision)
RETURNS TABLE (ticket bigint, granted boolean, pause double precision) LANGUAGE plpgsql AS $$
DECLARE
    wanted text;
BEGIN
    FOR wanted IN SELECT DISTINCT provider FROM tickets WHERE id = ANY (numbers) ORDER BY provider LOOP
        PERFORM 1 FROM limits WHERE provider = wanted FOR UPDATE;
        UPDATE tickets SET lease_until = clock_timestamp() + make_interval(secs => seconds)
        WHERE id = ANY (numbers) AND provider = wanted AND lease_until >= clock_timestamp();
        PERFORM grant_slots(wanted);
    END LOOP;
    RETURN QUERY SELECT id, is_held,
        greatest(0, extract(epoch FROM paused_until - clock_timestamp()))::double precision
    FROM tickets JOIN limits USING (provider) WHERE id = ANY (numbers);
END $$;

-- Pause a provider for this many seconds, and notify the holders of waiting tickets.
CREATE FUNCTION pause_provider(wanted text, seconds double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits (provider, paused_until)
    VALUES (wanted, clock_timestamp() + make_interval(secs => seconds))
    ON CONFLICT (provider) DO UPDATE SET paused_until = greatest(limits.paused_until, excluded.paused_until);
    PERFORM pg_notify('skillrun_slots_' || holder, '')
    FROM (SELECT DISTINCT holder FROM tickets WHERE provider = wanted AND NOT is_held) AS waiting;
END $$;

CREATE FUNCTION limit_provider(wanted text, number integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limits (provider, most) VALUES (wanted, number)
    ON CONFLICT (provider) DO UPDATE SET most = excluded.most;
    PERFORM grant_slots(wanted);
END $$;
