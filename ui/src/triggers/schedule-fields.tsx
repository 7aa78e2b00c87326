/** The fields of a schedule: its times, and what to do about missed and overlapping runs. */

import type { CatchUp, Overlap } from "@/api/schema";
import { Field, Input, Select } from "@/parts/form";
import type { Draft } from "@/triggers/draft";
import { CATCH_UPS, OVERLAPS, PRESETS } from "@/triggers/labels";

interface Props {
  draft: Draft;
  onChange: (changed: Partial<Draft>) => void;
}

export function ScheduleFields({ draft, onChange }: Props) {
  return (
    <>
      <div className="grid grid-cols-1 gap-4 sm:grid-cols-2">
        <Field
          label="Cron expression"
          isRequired
          hint="Minute, hour, day, month and weekday; a name such as @daily; or an interval such as @every 30s."
        >
          {(id) => (
            <Input
              id={id}
              required
              className="font-mono"
              value={draft.cron}
              onChange={(event) => onChange({ cron: event.target.value })}
            />
          )}
        </Field>
        <Field label="Presets">
          {(id) => (
            <Select
              id={id}
              value={PRESETS.some(([cron]) => cron === draft.cron) ? draft.cron : ""}
              onChange={(event) => onChange({ cron: event.target.value })}
            >
              <option value="">Custom</option>
              {PRESETS.map(([cron, words]) => (
                <option key={cron} value={cron}>
                  {words}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <Field
        label="Time zone"
        isRequired
        hint="For example Europe/Berlin. Enter tenant for the tenant's time zone."
      >
        {(id) => (
          <>
            <Input
              id={id}
              required
              list={`${id}-zones`}
              value={draft.timezone}
              onChange={(event) => onChange({ timezone: event.target.value })}
            />
            <datalist id={`${id}-zones`}>
              {["tenant", "UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label="Missed runs">
        {(id) => (
          <Select
            id={id}
            value={draft.catchUp}
            onChange={(event) => onChange({ catchUp: event.target.value as CatchUp })}
          >
            {Object.entries(CATCH_UPS).map(([value, words]) => (
              <option key={value} value={value}>
                {capitalize(words)}
              </option>
            ))}
          </Select>
        )}
      </Field>
      {draft.catchUp === "all" && (
        <Field label="Maximum number of missed runs, latest first">
          {(id) => (
            <Input
              id={id}
              type="number"
              min={1}
              max={100}
              value={draft.catchUpLimit}
              onChange={(event) => onChange({ catchUpLimit: event.target.value })}
            />
          )}
        </Field>
      )}
      <Field label="If the previous run is still in progress">
        {(id) => (
          <Select
            id={id}
            value={draft.overlap}
            onChange={(event) => onChange({ overlap: event.target.value as Overlap })}
          >
            {Object.entries(OVERLAPS).map(([value, words]) => (
              <option key={value} value={value}>
                {capitalize(words)}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field
        label="Jitter (seconds)"
        hint="Delays each run by up to this many seconds, so that schedules do not all start at once."
      >
        {(id) => (
          <Input
            id={id}
            type="number"
            min={0}
            max={3600}
            value={draft.jitter}
            onChange={(event) => onChange({ jitter: event.target.value })}
          />
        )}
      </Field>
    </>
  );
}

function capitalize(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
