-- Held-out episodes of this log can never enter a release. Without statistics, as in a log that was just
-- filled, all of it would be scanned for each row.
CREATE FUNCTION trajlog.refuse_held_out() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
DECLARE
    held record;
BEGIN
    SELECT s.stream, e.split INTO held
    FROM added a
    CROSS JOIN LATERAL unnest(coalesce(a.sources, ARRAY[a.stream])) s (stream)
    CROSS JOIN LATERAL (
        SELECT coalesce(convert_from(e.body, 'UTF8')::json ->> 'split', 'train') AS split
        FROM trajlog.event e WHERE e.stream = s.stream COLLATE "default" AND e.type = 'EpisodeStarted'
        ORDER BY e.version LIMIT 1) e
    WHERE a.digest IS NOT NULL AND a.log_id = (SELECT log_id FROM trajlog.log) AND e.split <> 'train'
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'trajlog.release_row: % is of the split %', held.stream, held.split
            USING ERRCODE = 'check_violation', CONSTRAINT = 'release_row_split';
    END IF;
    RETURN NULL;
END $$;
