-- The advisory lock that orders all appends to this database's log ("trajlog" in ASCII).
CREATE FUNCTION trajlog.lock_key() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 32776860021321575
$$;
