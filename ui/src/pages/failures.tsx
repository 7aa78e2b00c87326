/** Dead jobs in failure groups: inspect a group, fix the cause, retry one job, then all. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { BellOff, CircleCheck } from "lucide-react";
import { failures } from "@/api/queries";
import type { FailureGroup } from "@/api/schema";
import { Group } from "@/failures/group";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { usePlace } from "@/shell/keyboard";

export function Page() {
  const query = useQuery(failures());
  const now = Date.now();
  const groups = query.data?.items ?? [];
  const placeOf = (group: FailureGroup) => {
    if (group.has_recurred) return "loud";
    if (group.snoozed_until && new Date(group.snoozed_until).getTime() > now) return "snoozed";
    return group.resolved_in === null ? "loud" : "fixed";
  };
  const placed = (place: string) => groups.filter((group) => placeOf(group) === place);
  const [loud, snoozed, fixed] = [placed("loud"), placed("snoozed"), placed("fixed")];
  return (
    <Frame
      title="Failures"
      lead="Dead jobs, grouped by cause. Each job waits until you retry or discard it."
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : groups.length === 0 ? (
        <Empty title="No dead jobs">
          A job that uses up its attempts, or raises <code className="font-mono">Dead</code>,
          appears here in a group of jobs with the same cause.
        </Empty>
      ) : (
        <>
          {loud.length > 0 && <Groups groups={loud} />}
          {snoozed.length > 0 && (
            <>
              <h2 className="flex items-center gap-2 font-semibold text-muted">
                <BellOff size={14} aria-hidden /> Snoozed
              </h2>
              <Groups groups={snoozed} />
            </>
          )}
          {fixed.length > 0 && (
            <>
              <h2 className="flex items-center gap-2 font-semibold text-muted">
                <CircleCheck size={14} aria-hidden /> Fixed in a build
              </h2>
              <Groups groups={fixed} />
            </>
          )}
        </>
      )}
    </Frame>
  );
}

function Groups({ groups }: { groups: FailureGroup[] }) {
  const { group: open } = useSearch({ strict: false }) as { group?: string };
  const navigate = useNavigate();
  const toggle = (group: FailureGroup) =>
    void navigate({
      to: "/failures",
      search: { group: open === group.fingerprint ? undefined : group.fingerprint },
      replace: true,
      resetScroll: false,
    });
  const [at, box] = usePlace<HTMLUListElement>(groups.length, (place) => {
    const group = groups[place];
    if (group) toggle(group);
  });
  return (
    <Panel className="overflow-hidden">
      <ul ref={box}>
        {groups.map((group, index) => {
          const isOpen = open === group.fingerprint;
          return (
            <li
              key={group.fingerprint}
              className={`border-line border-b last:border-0 ${index === at ? "bg-hover shadow-[inset_2px_0_0_var(--accent)]" : ""}`}
            >
              <Group group={group} isOpen={isOpen} onToggle={() => toggle(group)} />
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}
