-- Seal one commit. The caller holds the log's lock and has written positions first_position…last_position.
-- Stamps never run backwards, whatever the clock does. A commit of several events is notified; single ones,
-- where it would be felt, are polled for.
CREATE OR REPLACE FUNCTION trajlog.close_segment(
    p_first bigint, p_last bigint, p_topic_id uuid, p_partition int, p_first_offset bigint, p_next_offset bigint
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    head trajlog.segment;
    stamp timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO head FROM trajlog.segment ORDER BY last_position DESC LIMIT 1;
    IF coalesce(head.last_position, 0) <> p_first - 1 THEN
        RAISE EXCEPTION 'segment % to % does not follow position %', p_first, p_last, coalesce(head.last_position, 0);
    END IF;
    stamp := greatest(stamp, head.committed_at + interval '1 microsecond');
    INSERT INTO trajlog.segment VALUES (
        p_first, p_last, p_topic_id, p_partition, p_first_offset, p_next_offset, stamp, head.seal,
        trajlog.segment_seal(head.seal, p_first, p_last, p_topic_id, p_partition, p_first_offset, p_next_offset, stamp));
    IF p_last > p_first THEN
        PERFORM pg_notify('trajlog', p_last::text);
    END IF;
    RETURN stamp;
END $$;
