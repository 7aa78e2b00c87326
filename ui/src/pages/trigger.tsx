/** One trigger: its next firing, its run history, and the actions on it. */

import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { History, Pencil, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { printShort } from "@/api/json";
import { client, trigger as triggerQuery } from "@/api/queries";
import type { Trigger, TriggerTestResult } from "@/api/schema";
import { OnOff } from "@/pages/triggers";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Detail } from "@/parts/detail";
import { type Fact, Facts } from "@/parts/fact-list";
import { Failure, FormError, Notice, Skeleton } from "@/parts/feedback";
import { Field, Input } from "@/parts/form";
import { JsonView } from "@/parts/json";
import { Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { Ago, setLength } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { draftOf } from "@/triggers/draft";
import { Editor } from "@/triggers/editor";
import { EventReactions, Firings } from "@/triggers/history";
import { CATCH_UPS, OPERATORS, OVERLAPS, timesOf } from "@/triggers/labels";
import { NextRuns } from "@/triggers/next-runs";
import { Outcome } from "@/triggers/outcome";
import { EventPicker, useRecent } from "@/triggers/template-preview";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const { edit } = useSearch({ strict: false }) as { edit?: string };
  const { may } = useSession();
  const query = useQuery(triggerQuery(id));
  if (query.isPending) return <Skeleton rows={10} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  const canEdit = may("triggers", "write") && query.data.declared === null;
  return edit && canEdit ? <Editing trigger={query.data} /> : <View trigger={query.data} />;
}

function Editing({ trigger }: { trigger: Trigger }) {
  const navigate = useNavigate();
  // The trigger as it was when editing began; it may fire in the meantime.
  const [start] = useState(() => draftOf(trigger));
  const back = () => void navigate({ to: "/triggers/$id", params: { id: trigger.id } });
  return (
    <Detail back={{ to: "/triggers", label: "Triggers" }} title={`Edit ${trigger.label}`}>
      <Editor trigger={trigger} start={start} onCancel={back} onSaved={back} />
    </Detail>
  );
}

function View({ trigger }: { trigger: Trigger }) {
  const navigate = useNavigate();
  const { may } = useSession();
  const [open, setOpen] = useState<"delete" | "backfill" | null>(null);
  const canAct = may("triggers", "write");
  const isSchedule = trigger.type === "schedule";

  async function run() {
    try {
      await call("post", "/api/v1/triggers/{trigger_id}/run", { path: { trigger_id: trigger.id } });
      toast("Run requested. A scheduler will create the job.");
      await client.invalidateQueries({ queryKey: ["firings", trigger.id] });
    } catch (error) {
      toastError(error);
    }
  }

  return (
    <Detail
      back={{ to: "/triggers", label: "Triggers" }}
      title={trigger.label}
      standing={<OnOff row={trigger} canAct={canAct} />}
      lead={
        <span>
          Runs{" "}
          <Link
            to="/definitions/$key"
            params={{ key: trigger.definition }}
            className="text-accent hover:underline"
          >
            {trigger.definition}
          </Link>
          {trigger.declared &&
            ". Declared in code: change its settings there, and enable or disable it here."}
        </span>
      }
      actions={
        canAct && (
          <>
            {isSchedule && (
              <>
                <Button icon={History} onClick={() => setOpen("backfill")}>
                  Backfill
                </Button>
                <Button icon={Play} isOnce onClick={() => void run()}>
                  Run now
                </Button>
              </>
            )}
            {trigger.declared === null && (
              <>
                <Button
                  icon={Pencil}
                  onClick={() => void navigate({ to: ".", search: { edit: "1" } })}
                >
                  Edit
                </Button>
                <Button look="danger" icon={Trash2} onClick={() => setOpen("delete")}>
                  Delete
                </Button>
              </>
            )}
          </>
        )
      }
    >
      {trigger.fault && <Notice isBad>The scheduler disabled this trigger: {trigger.fault}</Notice>}
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 xl:grid-cols-[minmax(0,1fr)_380px]">
        <div className="flex min-w-0 flex-col gap-4">
          {isSchedule ? (
            <Firings id={trigger.id} />
          ) : (
            <EventReactions id={trigger.id} event={trigger.event ?? ""} />
          )}
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          {isSchedule && (
            <Panel title={trigger.enabled ? "Next runs" : "Next runs (if enabled)"}>
              <NextRuns id={trigger.id} />
            </Panel>
          )}
          {!isSchedule && may("events", "write") && <TriggerTest trigger={trigger} />}
          <Panel title="Settings">
            <Facts facts={factsOf(trigger)} />
          </Panel>
          <Panel title="Payload">
            <JsonView label="Payload" value={trigger.payload} />
          </Panel>
        </div>
      </div>
      {open === "delete" && (
        <Confirm
          title={`Delete trigger ${trigger.label}?`}
          verb="Delete"
          isDangerous
          onClose={() => setOpen(null)}
          act={async () => {
            await call("delete", "/api/v1/triggers/{trigger_id}", {
              path: { trigger_id: trigger.id },
            });
            await client.invalidateQueries({ queryKey: ["triggers"] });
            void navigate({ to: "/triggers" });
          }}
        >
          <p className="text-muted">
            The trigger will create no more jobs. Existing jobs are unchanged.
          </p>
        </Confirm>
      )}
      {open === "backfill" && <Backfill trigger={trigger} onClose={() => setOpen(null)} />}
    </Detail>
  );
}

function factsOf(trigger: Trigger): Fact[] {
  const facts: Fact[] =
    trigger.type === "schedule"
      ? [
          [
            "Schedule",
            <code key="cron" className="font-mono text-xs">
              {timesOf(trigger.cron ?? "")}
            </code>,
          ],
          ["Time zone", trigger.timezone === "tenant" ? `${trigger.zone} (tenant)` : trigger.zone],
          ["Next run", <Ago key="next" at={trigger.enabled ? trigger.next_run_at : null} />],
          ["Missed runs", CATCH_UPS[trigger.catch_up]],
          ["Overlapping runs", OVERLAPS[trigger.overlap]],
          ["Jitter", trigger.jitter_s > 0 ? `up to ${setLength(trigger.jitter_s)}` : "none"],
        ]
      : [
          [
            "Event",
            <code key="event" className="font-mono text-xs">
              {trigger.event}
            </code>,
          ],
          ["Conditions", <Conditions key="filter" filter={trigger.filter} />],
          [
            "Deduplication",
            trigger.dedupe_window_s > 0
              ? `One job per ${trigger.dedupe_key ? "key" : "payload"} within ${setLength(trigger.dedupe_window_s)}`
              : "Only events with the same key",
          ],
          [
            "Deduplicated events",
            trigger.deduplicated >= 10_000 ? "10,000+" : trigger.deduplicated.toLocaleString("en"),
          ],
        ];
  if (trigger.dedupe_key) facts.push(["Deduplication key", trigger.dedupe_key]);
  if (trigger.queue) facts.push(["Queue", trigger.queue]);
  if (trigger.priority !== 0) facts.push(["Priority", trigger.priority]);
  facts.push(["Last fired", <Ago key="last" at={trigger.last_fired_at} />]);
  facts.push(["Created by", trigger.created_by]);
  return facts;
}

function Conditions({ filter }: { filter: unknown[] }) {
  if (filter.length === 0) return <>none</>;
  return (
    <ul>
      {(filter as { path: string; op: string; value?: unknown }[]).map((each) => (
        <li key={printShort(each)}>
          <code className="font-mono text-xs">{each.path}</code>{" "}
          {each.op === "exists" ? (
            each.value === false ? (
              "does not exist"
            ) : (
              "exists"
            )
          ) : (
            <>
              {OPERATORS.find(([op]) => op === each.op)?.[1] ?? each.op}{" "}
              <code className="font-mono text-xs">{printShort(each.value)}</code>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Shows the job that an existing event would create, without creating it. */
function TriggerTest({ trigger }: { trigger: Trigger }) {
  const known = useRecent(trigger.event ?? "");
  const [chosen, setChosen] = useState("");
  const id = chosen || (known[0]?.id ?? "");
  const trial = useMutation({
    mutationFn: () =>
      call("post", "/api/v1/triggers/{trigger_id}/test", {
        path: { trigger_id: trigger.id },
        body: { event_id: id },
      }),
  });
  if (known.length === 0) return null;
  return (
    <Panel title="Test with an event">
      <div className="flex flex-col gap-3 p-4">
        <EventPicker
          events={known}
          value={id}
          onChange={(next) => {
            setChosen(next);
            trial.reset();
          }}
        />
        <Button className="self-start" onClick={() => trial.mutate()}>
          Test
        </Button>
        <FormError error={trial.error} />
      </div>
      {trial.data && <Result tried={trial.data} />}
    </Panel>
  );
}

function Result({ tried }: { tried: TriggerTestResult }) {
  return (
    <div className="border-line border-t">
      <p className="flex flex-wrap gap-2 px-4 pt-3">
        Outcome: <Outcome name={tried.outcome} />
      </p>
      {tried.reason && <p className="px-4 py-2 text-muted">{tried.reason}</p>}
      {tried.job ? <JsonView label="Job" value={tried.job} /> : <div className="pb-3" />}
    </div>
  );
}

function Backfill({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [start, setStart] = useState("");
  const [end, setEnd] = useState("");
  return (
    <Confirm
      title={`Backfill ${trigger.label}`}
      verb="Start backfill"
      isReady={start !== "" && end !== ""}
      onClose={onClose}
      act={async () => {
        const made = await call("post", "/api/v1/triggers/{trigger_id}/backfill", {
          path: { trigger_id: trigger.id },
          body: { start: new Date(start).toISOString(), end: new Date(end).toISOString() },
        });
        toast(`${plural(made.firings, "firing")} requested.`);
        await client.invalidateQueries({ queryKey: ["firings", trigger.id] });
      }}
    >
      <p className="text-muted">
        Creates the jobs for past times of the schedule, up to 1,000. Times that have already fired
        are skipped.
      </p>
      <div className="grid grid-cols-1 gap-4 sm:grid-cols-2">
        <Field label="From" hint="In your local time.">
          {(id) => (
            <Input
              id={id}
              type="datetime-local"
              value={start}
              onChange={(event) => setStart(event.target.value)}
            />
          )}
        </Field>
        <Field label="To">
          {(id) => (
            <Input
              id={id}
              type="datetime-local"
              value={end}
              onChange={(event) => setEnd(event.target.value)}
            />
          )}
        </Field>
      </div>
    </Confirm>
  );
}
