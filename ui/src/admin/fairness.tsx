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
    <Panel title="Who gets the workers" actions={<Legend />}>
      {failed ? (
        <Failure error={failed.error} onRetry={() => void failed.refetch()} />
      ) : shares === null ? (
        <div className="h-20" />
      ) : shares.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          Nobody has asked for anything in the last {range.label}.
        </p>
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
      <span className="flex items-center gap-1.5" title="what was done and what waits">
        <span className="size-2 rounded-sm bg-strong" aria-hidden /> asked
      </span>
      <span className="flex items-center gap-1.5" title="what was done">
        <span className="size-2 rounded-sm bg-accent" aria-hidden /> got
      </span>
      <span
        className="flex items-center gap-1.5"
        title="its weight among those who ask: what it gets at least when all want more"
      >
        <span className="h-3 w-0.5 bg-text" aria-hidden /> due
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
            title="It asks for far more than is due to it, and others wait. They get their turns all the same; its own jobs wait longest."
          >
            <Volume2 size={11} aria-hidden /> Noisy
          </span>
        )}
      </span>
      <span
        className="relative order-last col-span-2 flex flex-col gap-0.5 sm:order-none sm:col-span-1"
        role="img"
        aria-label={`${share.name} asked for ${percent(share.asked)}, got ${percent(share.got)}, due ${percent(share.due)}`}
      >
        <Bar share={share.asked} color="bg-strong" />
        <Bar share={share.got} color="bg-accent" />
        <span
          className="absolute -inset-y-0.5 w-0.5 bg-text"
          style={{ left: `calc(${share.due * 100}% - 1px)` }}
        />
      </span>
      <span className="num whitespace-nowrap text-right text-muted text-xs">
        {percent(share.asked)} asked · {percent(share.got)} got
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
  return `${Math.round(share * 100)} %`;
}
