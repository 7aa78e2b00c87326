/** Each tenant's requested and received worker time, compared with its share by weight. */

import { useQuery } from "@tanstack/react-query";
import { Volume2 } from "lucide-react";
import { type Share, sharesOf } from "@/admin/tenant-shares";
import { database, tenants, usage } from "@/api/queries";
import { useChartParams } from "@/charts/url-params";
import { tenantHref } from "@/config";
import { short } from "@/jobs/short-count";
import { Failure } from "@/parts/feedback";
import { Panel } from "@/parts/page";

const SHOWN = 12;

export function Fairness() {
  const { range } = useChartParams();
  const known = useQuery(tenants());
  const used = useQuery(usage(range.lasts_s));
  const state = useQuery(database());
  const failed = [known, used, state].find((each) => each.isError);
  const shares =
    known.data && used.data && state.data
      ? sharesOf(known.data.items, used.data.items, state.data.waiting)
      : null;
  return (
    <Panel title="Worker share by tenant" actions={<Legend />}>
      {failed ? (
        <Failure error={failed.error} onRetry={() => void failed.refetch()} />
      ) : shares === null ? (
        <div className="h-20" />
      ) : shares.length === 0 ? (
        <p className="px-4 py-3 text-muted">No jobs in the last {range.label}.</p>
      ) : (
        <ul className="flex flex-col gap-3 px-4 py-3">
          {shares.slice(0, SHOWN).map((share) => (
            <Row key={share.id} share={share} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Legend() {
  return (
    <span className="flex items-center gap-3 pr-2 text-muted text-xs">
      <span className="flex items-center gap-1.5" title="Share of finished and waiting jobs">
        <span className="size-2 rounded-sm bg-strong" aria-hidden /> demand
      </span>
      <span className="flex items-center gap-1.5" title="Share of finished jobs">
        <span className="size-2 rounded-sm bg-accent" aria-hidden /> used
      </span>
      <span
        className="flex items-center gap-1.5"
        title="Guaranteed share, by weight, when every tenant is busy"
      >
        <span className="h-3 w-0.5 bg-text" aria-hidden /> fair share
      </span>
    </span>
  );
}

function Row({ share }: { share: Share }) {
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 gap-y-1 sm:grid-cols-[10rem_minmax(0,1fr)_16rem]">
      <span className="flex min-w-0 items-center gap-2">
        {share.slug === null ? (
          <span className="text-muted">{share.name}</span>
        ) : (
          <a href={tenantHref(share.slug)} className="truncate font-medium hover:text-accent">
            {share.name}
          </a>
        )}
        {share.isNoisy && (
          <span
            className="inline-flex items-center gap-1 rounded bg-warn-soft px-1.5 font-medium text-warn text-xs"
            title="Requests far more than its fair share while other tenants wait. The other tenants still get their turns."
          >
            <Volume2 size={11} aria-hidden /> Noisy
          </span>
        )}
      </span>
      <span
        className="relative order-last col-span-2 flex flex-col gap-0.5 sm:order-none sm:col-span-1"
        role="img"
        aria-label={`${share.name}: demand ${percent(share.asked)}, used ${percent(share.got)}, fair share ${percent(share.due)}`}
      >
        <Bar share={share.asked} color="bg-strong" />
        <Bar share={share.got} color="bg-accent" />
        <span
          className="absolute -inset-y-0.5 w-0.5 bg-text"
          style={{ left: `calc(${share.due * 100}% - 1px)` }}
        />
      </span>
      <span className="num whitespace-nowrap text-right text-muted text-xs">
        {percent(share.asked)} demand · {percent(share.got)} used
        <span className="hidden sm:inline"> · {short(share.waiting)} waiting</span>
      </span>
    </li>
  );
}

function Bar({ share, color }: { share: number; color: string }) {
  return (
    <span className="h-1.5 rounded-full bg-raised">
      <span
        className={`block h-full min-w-px rounded-full ${color}`}
        style={{ width: `${share * 100}%` }}
      />
    </span>
  );
}

function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}
