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
          label="Cron"
          isRequired
          hint="Minute, hour, day, month, weekday; or @daily and the like."
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
        <Field label="Common times">
          {(id) => (
            <Select
              id={id}
              value={PRESETS.some(([cron]) => cron === draft.cron) ? draft.cron : ""}
              onChange={(event) => onChange({ cron: event.target.value })}
            >
              <option value="">My own</option>
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
        hint="Whose clocks it goes by, such as Europe/Berlin; tenant stands for the tenant's own."
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
      <Field label="Times that no scheduler was there for">
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
        <Field label="Maximum number, latest first">
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
      <Field label="While a job of the time before has not ended">
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
        label="Spread over seconds"
        hint="Delays each firing by up to this many seconds, so that not all start at once."
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
