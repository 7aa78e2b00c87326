-- Returns outcome reports without numbers of 1e309 or more, which cannot be read as text. A report
-- with such a number in its error loses the error; a report with one elsewhere becomes a final
-- failure. Called by complete_job and complete_jobs, so that one report does not fail the others.
create or replace function jobforge_private.fail_unbounded_outcomes(p_outcomes jsonb) returns jsonb
language plpgsql stable
as $$
begin
    if not jsonb_path_exists(p_outcomes, 'strict $.** ? (@.abs() >= 1e309)')
       or jsonb_typeof(p_outcomes) <> 'array' then
        return p_outcomes;
    end if;
    return (
        select jsonb_agg(case
                   when f.fields is null then e.outcome
                   when f.fields = '{error}' then e.outcome || jsonb_build_object(
                       'error', '{"message": "The error is too long as JSON text"}'::jsonb)
                   else e.outcome - f.fields || jsonb_build_object(
                       'outcome', 'failed', 'final', true, 'error', jsonb_build_object(
                           'type', case when f.fields = '{result}' then 'ResultTooLong'
                                        else 'InvalidOutcome' end,
                           'message', 'The outcome contains a number of 1e309 or more at '
                               || (jobforge_private.find_unbounded(e.outcome)).path)) end
                   order by e.n)
          from jsonb_array_elements(p_outcomes) with ordinality as e(outcome, n)
          left join lateral (
               select array_agg(m.key) as fields
                 from jsonb_each(case when jsonb_typeof(e.outcome) = 'object'
                                      then e.outcome end) as m
                where jsonb_path_exists(m.value, 'strict $.** ? (@.abs() >= 1e309)')) as f
            on true);
end $$;
