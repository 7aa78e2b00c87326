-- Returns a UUIDv7: IDs sort by creation. Postgres 18 has its own function; before that, the twelve
-- bits after the version hold the fraction of the millisecond, so that the order is finer than a
-- millisecond.
do $do$
begin
    if current_setting('server_version_num')::int >= 180000 then
        execute $sql$
            create or replace function jobforge_private.uuid7() returns uuid
            language sql volatile
            as 'select pg_catalog.uuidv7()'
        $sql$;
    else
        execute $sql$
            create or replace function jobforge_private.uuid7() returns uuid
            language plpgsql volatile set search_path = pg_catalog, pg_temp
            as $body$
            declare
                v_us bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
                v_fraction integer := ((v_us % 1000) * 4096 / 1000)::integer;
                v_bytes bytea := uuid_send(gen_random_uuid());
            begin
                v_bytes := overlay(
                    v_bytes placing substring(int8send(v_us / 1000) from 3) from 1 for 6);
                v_bytes := set_byte(v_bytes, 6, 112 | (v_fraction >> 8));
                v_bytes := set_byte(v_bytes, 7, v_fraction & 255);
                return encode(v_bytes, 'hex')::uuid;
            end $body$
        $sql$;
    end if;
end $do$;
