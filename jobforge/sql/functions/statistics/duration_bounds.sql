-- Where the buckets of a histogram of durations begin, in milliseconds: each is twice as wide as
-- the one before. What is shorter than the first bound is in bucket 1, and what lasts longer than
-- the last one, twelve days, is in bucket 32.
create or replace function jobforge_private.duration_bounds() returns double precision[]
language sql immutable
as $$
    select '{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
             131072, 262144, 524288, 1048576, 2097152, 4194304, 8388608, 16777216, 33554432,
             67108864, 134217728, 268435456, 536870912, 1073741824}'::double precision[]
$$;
