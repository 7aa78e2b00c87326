-- Returns the lower bounds of the buckets of a duration histogram in milliseconds: each bucket is
-- twice as wide as the previous one. Bucket 1 has durations below the first bound, bucket 32 those
-- above the last bound, twelve days.
create or replace function jobforge_private.duration_bounds() returns double precision[]
language sql immutable
as $$
    select '{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
             131072, 262144, 524288, 1048576, 2097152, 4194304, 8388608, 16777216, 33554432,
             67108864, 134217728, 268435456, 536870912, 1073741824}'::double precision[]
$$;
