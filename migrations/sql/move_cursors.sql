-- Move the cursors of one topic's partitions, in order of partition so that no two workers wait for each other.
-- Returns the partitions whose cursor is not where this worker left it, or which have another owner since.
CREATE FUNCTION trajlog.move_cursors(
    p_topic_id uuid, p_partitions int[], p_epochs bigint[], p_expected bigint[], p_next bigint[],
    p_last bigint[], p_digests bytea[]
) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
    fenced int[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        UPDATE trajlog.ingest_cursor
            SET next_offset = p_next[i], last_offset = p_last[i], last_digest = p_digests[i]
            WHERE topic_id = p_topic_id AND partition = p_partitions[i]
              AND next_offset = p_expected[i] AND epoch = p_epochs[i];
        IF NOT FOUND THEN
            fenced := fenced || p_partitions[i];
        END IF;
    END LOOP;
    RETURN fenced;
END $$;
