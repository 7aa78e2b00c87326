-- Returns an erasure that has to wait for a second, with the reason. Called by step_erasure and
-- finish_erasure.
create or replace function jobforge_private.defer_erasure(o jobforge.operations, p_reason text)
returns jobforge.operations
language plpgsql
as $$
begin
    o.state := 'waiting';
    o.reason := p_reason;
    o.due_at := jobforge_private.now() + interval '1 second';
    return o;
end $$;
