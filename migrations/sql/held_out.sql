-- Those of the streams that are held out: the split of an episode is what it began with.
CREATE FUNCTION trajlog.held_out(streams text[]) RETURNS TABLE (stream text, split text) LANGUAGE sql STABLE
    SET enable_seqscan = off AS $$
    SELECT s.stream, e.split
    FROM (SELECT DISTINCT unnest(streams) AS stream) s
    CROSS JOIN LATERAL (
        SELECT coalesce(convert_from(e.body, 'UTF8')::json ->> 'split', 'train') AS split
        FROM trajlog.event e WHERE e.stream = s.stream COLLATE "default" AND e.type = 'EpisodeStarted'
        ORDER BY e.version LIMIT 1) e
    WHERE e.split <> 'train'
$$;
