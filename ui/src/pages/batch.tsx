/** One batch: the number of finished jobs, and their outcomes. */

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Ban, PackageCheck } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { batch as batchQuery, client } from "@/api/queries";
import type { WorkflowInfo } from "@/api/schema";
import { short } from "@/jobs/short-count";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy";
import { Detail } from "@/parts/detail";
import { Facts } from "@/parts/fact-list";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { CancelWorkflow } from "@/workflows/cancel";
import { factsOf } from "@/workflows/facts";
import { countEnded, Segments, sum, WORKFLOW_ENDED } from "@/workflows/progress";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(batchQuery(id));
  if (query.isPending) return <Skeleton rows={8} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View batch={query.data} />;
}

function View({ batch }: { batch: WorkflowInfo }) {
  const { may } = useSession();
  const [isCanceling, setCanceling] = useState(false);
  const counts = batch.counts ?? {};
  const size = Math.max(batch.size, sum(counts));
  const canAct = may("workflows", "write") && !WORKFLOW_ENDED.has(batch.state);

  async function close() {
    try {
      await call("post", "/api/v1/batches/{batch_id}/close", { path: { batch_id: batch.id } });
      await client.invalidateQueries({ queryKey: ["workflow"] });
    } catch (error) {
      toastError(error);
    }
  }

  return (
    <Detail
      back={{ to: "/workflows", label: "Workflows" }}
      title={batch.name ?? "Batch"}
      standing={<State name={batch.state} />}
      lead={
        <>
          <code className="truncate font-mono text-faint text-xs">{batch.id}</code>
          <CopyButton text={batch.id} label="Copy ID" />
        </>
      }
      actions={
        canAct && (
          <>
            {batch.is_open && (
              <Button icon={PackageCheck} onClick={() => void close()}>
                Close batch
              </Button>
            )}
            <Button look="danger" icon={Ban} onClick={() => setCanceling(true)}>
              Cancel
            </Button>
          </>
        )
      }
    >
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 lg:grid-cols-2">
        <Panel title={`${short(countEnded(counts))} of ${short(size)} jobs finished`}>
          <div className="flex flex-col gap-3 p-4">
            <Segments counts={counts} size={size} />
            {batch.is_open && (
              <p className="text-muted">
                The batch is open: jobs can still be added, so it cannot finish yet.
              </p>
            )}
            <ul className="flex flex-wrap gap-x-6 gap-y-1.5">
              {Object.entries(counts).map(([state, count]) => (
                <li key={state} className="flex items-center gap-2">
                  <State name={state} />
                  <span className="num">{short(count)}</span>
                </li>
              ))}
            </ul>
            {batch.correlation_id && (
              <Link
                to="/jobs"
                search={{ correlation_id: batch.correlation_id }}
                className="text-accent hover:underline"
              >
                Jobs with this correlation ID
              </Link>
            )}
          </div>
        </Panel>
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="Details">
            <Facts facts={factsOf(batch)} />
          </Panel>
          {batch.input !== null && (
            <Panel title="Input">
              <JsonView label="Input" value={batch.input} />
            </Panel>
          )}
        </div>
      </div>
      {isCanceling && <CancelWorkflow row={batch} isBatch onClose={() => setCanceling(false)} />}
    </Detail>
  );
}
