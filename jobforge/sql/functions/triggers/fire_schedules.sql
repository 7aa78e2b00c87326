-- Records firings of a tenant's schedules, which the caller has locked, and enqueues their jobs:
-- firings without an overlap policy in one insert, the others one by one. If the jobs of all are
-- refused, each is tried separately. Returns how many were recorded. Called by record_firings.
create or replace function jobforge_private.fire_schedules(p_tenant_id uuid, p_firings jsonb)
returns integer
language plpgsql
as $$
declare
    v_batch jsonb;
    v_single jsonb;
    v_firing jsonb;
    v_recorded integer := 0;
begin
    select jsonb_agg(e.firing order by e.place) filter (where e.is_free),
           jsonb_agg(e.firing order by e.place) filter (where not e.is_free)
      into v_batch, v_single
      from (select g.firing, g.place,
                   not g.firing ? 'outcome' and (g.firing ->> 'overlap' = 'allow'
                                                 or g.firing ->> 'kind' <> 'schedule') as is_free
              from jsonb_array_elements(p_firings) with ordinality as g(firing, place)) as e;
    if v_batch is not null then
        begin
            v_recorded := jobforge_private.fire_in_batch(p_tenant_id, v_batch);
        exception
            -- The pending limit is reached, or the definition is unknown or inactive.
            when sqlstate 'JF008' or sqlstate 'JF009' or sqlstate 'JF010' then
                v_single := v_batch || coalesce(v_single, '[]');
        end;
    end if;
    for v_firing in select e.firing from jsonb_array_elements(v_single) as e(firing) loop
        v_recorded := v_recorded + jobforge_private.fire_one(p_tenant_id, v_firing)::integer;
    end loop;
    return v_recorded;
end $$;
