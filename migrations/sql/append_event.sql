-- Append one event in one round trip: lock, head, event, segment. Gives [version, position]: a row costs more.
-- An event id that is known raises event_event_id_key; the caller tells a duplicate from a clash. The duplicate
-- test precedes p_expected.
CREATE FUNCTION trajlog.append_event(
    p_event_id uuid, p_run uuid, p_seq bigint, p_schema int, p_digest bytea, p_crc int, p_stream text, p_writer text,
    p_type text, p_occurred_at timestamptz, p_actor text, p_owner text, p_key_id text, p_causation_id uuid,
    p_correlation_id text, p_conversation text, p_body bytea, p_expected bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint;
    new_position bigint;
    head trajlog.segment;
    stamp timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(32776860021321575);
    SELECT * INTO head FROM trajlog.segment ORDER BY last_position DESC LIMIT 1;
    new_position := coalesce(head.last_position, 0) + 1;
    UPDATE trajlog.stream SET version = version + 1, last_position = new_position
        WHERE stream = p_stream RETURNING version INTO new_version;
    IF new_version IS NULL THEN
        new_version := 1;
        INSERT INTO trajlog.stream VALUES (p_stream, 1, new_position, new_position);
    END IF;
    IF p_expected <> new_version - 1 THEN -- alone: with the query in it, it would be planned and run each time
        IF NOT EXISTS (SELECT FROM trajlog.event WHERE event_id = p_event_id) THEN
            RAISE EXCEPTION USING ERRCODE = 'TL001', MESSAGE = 'wrong expected version', DETAIL = new_version - 1;
        END IF;
    END IF;
    INSERT INTO trajlog.event VALUES (
        new_position, new_version, p_event_id, p_run, p_seq, p_schema, p_digest, p_crc, p_stream, p_writer, p_type,
        p_occurred_at, p_actor, p_owner, p_key_id, p_causation_id, p_correlation_id, p_conversation, p_body);
    stamp := greatest(clock_timestamp(), head.committed_at + interval '1 microsecond');
    INSERT INTO trajlog.segment VALUES (
        new_position, new_position, NULL, NULL, NULL, NULL, stamp, head.seal,
        trajlog.segment_seal(head.seal, new_position, new_position, NULL, NULL, NULL, NULL, stamp));
    RETURN ARRAY[new_version, new_position];
END $$;
