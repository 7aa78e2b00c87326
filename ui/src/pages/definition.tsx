/** One definition: run it, pause it, view its effective settings. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Pause, Play, SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, definition as definitionQuery, workers } from "@/api/queries";
import type { DefinitionInfo } from "@/api/schema";
import { History } from "@/charts/history";
import { LimitDialog } from "@/jobs/limit-dialog";
import { limitsOf } from "@/jobs/limits";
import { RunForm } from "@/jobs/run-form";
import { Standing } from "@/pages/definitions";
import { Button } from "@/parts/button";
import { Back } from "@/parts/detail";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Panel, useTitle } from "@/parts/page";
import { plural } from "@/parts/plural";
import { Ago, setLength } from "@/parts/time";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";

export function Page() {
  const { key } = useParams({ strict: false }) as { key: string };
  const { version } = useSearch({ strict: false }) as { version?: string };
  const query = useQuery(definitionQuery(key, version ? Number(version) : undefined));
  useTitle(key);
  if (query.isPending) return <Skeleton rows={10} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View info={query.data} />;
}

function View({ info }: { info: DefinitionInfo }) {
  const { may } = useSession();
  const navigate = useNavigate();
  const [isLimiting, setLimiting] = useState(false);
  const canOperate = may("definitions", "write");

  function changed() {
    void client.invalidateQueries({ queryKey: ["definition", info.key] });
    void client.invalidateQueries({ queryKey: ["definitions"] });
  }
  async function toggle() {
    const path = { key: info.key };
    try {
      if (info.paused_at) await call("post", "/api/v1/definitions/{key}/resume", { path });
      else await call("post", "/api/v1/definitions/{key}/pause", { path });
      changed();
    } catch (error) {
      toastError(error);
    }
  }

  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <Back to="/definitions" label="Definitions" />
          <div className="flex flex-wrap items-center gap-3">
            <h1 className="break-all font-semibold text-lg leading-7 tracking-tight">
              {info.key}
              <span className="text-faint">@{info.version}</span>
            </h1>
            <Standing row={info} />
          </div>
          {info.description && (
            <p className="wrap-anywhere whitespace-pre-line text-muted">{info.description}</p>
          )}
        </div>
        <div className="flex flex-wrap gap-2">
          <Button onClick={() => void navigate({ to: "/jobs", search: { definition: info.key } })}>
            View jobs
          </Button>
          {canOperate && (
            <>
              <Button icon={SlidersHorizontal} onClick={() => setLimiting(true)}>
                Limits
              </Button>
              <Button icon={info.paused_at ? Play : Pause} onClick={() => void toggle()}>
                {info.paused_at ? "Resume" : "Pause"}
              </Button>
            </>
          )}
        </div>
      </header>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 lg:grid-cols-2">
        {may("jobs", "write") ? (
          <RunForm info={info} />
        ) : (
          <Panel title="Run job">
            <p className="px-4 py-3 text-muted">
              Your key is read-only. Sign in with a tenant admin key to run jobs.
            </p>
          </Panel>
        )}
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="Settings">
            <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5 px-4 py-3">
              {factsOf(info).map(([name, value]) => (
                <div key={name} className="contents">
                  <dt className="text-faint">{name}</dt>
                  <dd className="min-w-0 break-words">{value}</dd>
                </div>
              ))}
              <dt className="text-faint">Versions</dt>
              <dd className="flex flex-wrap gap-2">
                {info.versions.map((version) => (
                  <Link
                    key={version}
                    to="/definitions/$key"
                    params={{ key: info.key }}
                    search={{ version: String(version) }}
                    className={
                      version === info.version ? "font-semibold" : "text-accent hover:underline"
                    }
                  >
                    {version}
                  </Link>
                ))}
              </dd>
              {may("workers", "read") && <Adoption info={info} />}
              <dt className="text-faint">Registered</dt>
              <dd>
                <Ago at={info.updated_at} />
              </dd>
            </dl>
          </Panel>
          {Object.keys(info.overrides).length > 0 && (
            <Panel title="Operator overrides">
              <JsonView label="Overrides" value={info.overrides} />
            </Panel>
          )}
          {info.parameters && (
            <Panel title="Parameters">
              <JsonView label="Parameters" value={info.parameters} />
            </Panel>
          )}
        </div>
      </div>
      {may("statistics", "read") && <History only={info.key} />}
      {isLimiting && (
        <LimitDialog
          title={`Limits of ${info.key}`}
          limits={info}
          onClose={() => setLimiting(false)}
          save={async (limits) => {
            await call("patch", "/api/v1/definitions/{key}", {
              path: { key: info.key },
              body: limits,
            });
            changed();
          }}
        />
      )}
    </div>
  );
}

/** The versions that the live workers serve, which shows the progress of a deployment. */
function Adoption({ info }: { info: DefinitionInfo }) {
  const { data } = useQuery(workers());
  const live = data?.items.filter((each) => each.state === "live") ?? [];
  const served = info.versions
    .map((version) => ({
      version,
      workers: live.filter((each) => each.definitions?.includes(`${info.key}@${version}`)).length,
    }))
    .filter((each) => each.workers > 0);
  if (served.length === 0) return null;
  const told = served
    .map((each) => `@${each.version}: ${plural(each.workers, "worker")}`)
    .join(", ");
  return (
    <>
      <dt className="text-faint">Workers</dt>
      <dd className="flex items-center gap-3">
        <span
          role="img"
          aria-label={`Served by live workers: ${told}`}
          className="flex h-1.5 w-24 shrink-0 gap-px overflow-hidden rounded-full bg-raised"
        >
          {served.map((each, index) => (
            <span
              key={each.version}
              className={TONES[index % TONES.length]}
              style={{ flexGrow: each.workers }}
            />
          ))}
        </span>
        <span className="num">{told}</span>
      </dd>
    </>
  );
}

const TONES = ["bg-accent", "bg-run", "bg-plan", "bg-strong"];

function factsOf(info: DefinitionInfo): [string, string][] {
  return [
    ["Queue", info.queue],
    ["Maximum attempts", String(info.max_attempts)],
    [
      "Backoff",
      `${setLength(info.backoff_base_s)}, doubles up to ${setLength(info.backoff_cap_s)}`,
    ],
    ["Timeout", setLength(info.timeout_s)],
    ["Limits", limitsOf(info)],
    ["Hooks", info.hooks ? "yes" : "none"],
  ];
}
