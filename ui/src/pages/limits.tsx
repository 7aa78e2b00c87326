/** The limits of a tenant, their usage, and who set them. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { audit, ownTenant, summary } from "@/api/queries";
import type { OwnTenant } from "@/api/schema";
import { Bar } from "@/parts/bar";
import { Failure, Skeleton } from "@/parts/feedback";
import { Panel } from "@/parts/page";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";

const WAITING = new Set(["scheduled", "blocked", "queued"]);
const RUNNING = new Set(["running", "canceling"]);

export function Limits() {
  const query = useQuery(ownTenant());
  const { data } = useQuery(summary(60));
  if (query.isPending) return <Skeleton />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  const own = query.data;
  const count = (states: Set<string>) =>
    data?.items.reduce((sum, line) => sum + (states.has(line.state) ? line.jobs : 0), 0) ?? 0;
  return (
    <Panel>
      <dl className="divide-y divide-line">
        <Row title="Running jobs" field="max_running">
          <UsageBar used={count(RUNNING)} most={own.max_running} />
        </Row>
        <Row title="Waiting jobs" field="max_pending">
          <UsageBar used={count(WAITING)} most={own.max_pending} />
        </Row>
        <Row title="Rate limit" field="rate_limit">
          {own.rate_limit === null ? "no limit" : `${own.rate_limit} starts per period`}
        </Row>
        <Row title="Weight" field="weight">
          {own.weight === 1 ? "1 (default)" : own.weight}
        </Row>
        <Row title="Time zone" field="timezone">
          {own.timezone}
        </Row>
        {own.paused_at && (
          <Row title="Paused" field="paused_at">
            <span className="text-warn">
              <Ago at={own.paused_at} />. Jobs wait until an operator resumes this tenant.
            </span>
          </Row>
        )}
      </dl>
      <p className="border-line border-t px-4 py-3 text-muted">
        Operators set these limits.{" "}
        <Link to="/queues" className="text-accent underline">
          Queues
        </Link>{" "}
        and{" "}
        <Link to="/definitions" className="text-accent underline">
          definitions
        </Link>{" "}
        have separate limits.
      </p>
    </Panel>
  );
}

function Row({
  title,
  field,
  children,
}: {
  title: string;
  field: keyof OwnTenant;
  children: ReactNode;
}) {
  return (
    <div className="grid gap-x-6 gap-y-0.5 px-4 py-2.5 sm:grid-cols-[10rem_minmax(0,1fr)_auto]">
      <dt className="text-faint">{title}</dt>
      <dd>{children}</dd>
      <dd className="text-faint text-xs">
        <SetBy field={field} />
      </dd>
    </div>
  );
}

function UsageBar({ used, most }: { used: number; most: number | null }) {
  if (most === null) return <span className="num">{used.toLocaleString("en")}, no limit</span>;
  const share = Math.min(1, used / most);
  return (
    <span className="flex items-center gap-3">
      <span className="num">
        {used.toLocaleString("en")} of {most.toLocaleString("en")}
      </span>
      <span className="w-28">
        <Bar share={share} isBad={share >= 1} />
      </span>
    </span>
  );
}

/** The user who last set the limit, for users who may read the audit log. */
function SetBy({ field }: { field: string }) {
  const { may } = useSession();
  const { data } = useQuery({ ...audit({ action: "tenant.put" }), enabled: may("audit", "read") });
  const entry = data?.items.find((each) => field in ((each.detail ?? {}) as object));
  if (!entry) return null;
  return (
    <Link
      to="/settings"
      search={{ tab: "audit", action: "tenant.put" }}
      className="hover:text-accent"
    >
      set <Ago at={entry.at} /> by {entry.actor}
    </Link>
  );
}
