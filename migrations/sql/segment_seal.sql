-- core.digest.segment_seal, byte for byte: SHA-256 of the label and the tagged fields.
CREATE FUNCTION trajlog.segment_seal(
    previous bytea, first_position bigint, last_position bigint, topic_id uuid, partition int,
    first_offset bigint, next_offset bigint, committed_at timestamptz
) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(
        '\x7472616a6c6f672f7365676d656e742f3100'::bytea
        || coalesce('\x0100000020'::bytea || previous, '')
        || '\x0200000008'::bytea || int8send(first_position)
        || '\x0300000008'::bytea || int8send(last_position)
        || coalesce('\x0400000010'::bytea || uuid_send(topic_id), '')
        || coalesce('\x0500000004'::bytea || int4send(partition), '')
        || coalesce('\x0600000008'::bytea || int8send(first_offset), '')
        || coalesce('\x0700000008'::bytea || int8send(next_offset), '')
        || '\x0800000008'::bytea || int8send((extract(epoch FROM committed_at) * 1000000)::bigint))
$$;
