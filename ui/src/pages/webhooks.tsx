/** The endpoints that receive webhook messages about jobs. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { CircleCheck, CircleX, Plus, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { webhooks } from "@/api/queries";
import type { Webhook } from "@/api/schema";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";
import { WebhookForm } from "@/webhooks/form";
import { SecretShown } from "@/webhooks/secret";

const COLUMNS: Column<Webhook>[] = [
  {
    title: "Endpoint",
    isMain: true,
    cell: (row) => (
      <span className="flex min-w-0 flex-col">
        <Link
          to="/webhooks/$id"
          params={{ id: row.id }}
          className="truncate font-medium hover:text-accent"
        >
          {row.url}
        </Link>
        {row.description && <span className="truncate text-muted text-xs">{row.description}</span>}
      </span>
    ),
  },
  { title: "Status", cell: (row) => <WebhookState row={row} /> },
  { title: "Notifies on", isWide: true, cell: (row) => row.events.join(", ") },
  {
    title: "Definitions",
    isWide: true,
    cell: (row) => (
      <span className="block max-w-48 truncate" title={row.definitions?.join(", ")}>
        {row.definitions?.join(", ") ?? "all jobs"}
      </span>
    ),
  },
  { title: "Created", isWide: true, cell: (row) => <Ago at={row.created_at} /> },
];

export function Page() {
  const { may } = useSession();
  const navigate = useNavigate();
  const query = useQuery(webhooks());
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<{ id: string; secret: string } | null>(null);
  const canAct = may("webhooks", "write");
  return (
    <Frame
      title="Webhooks"
      lead="Notify other services about your jobs with signed messages."
      actions={
        canAct && (
          <Button look="primary" icon={Plus} onClick={() => setMaking(true)}>
            Create webhook
          </Button>
        )
      }
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty
          title="No webhooks yet"
          code="jobforge webhooks create https://example.com/jobs --event success --event dead"
        >
          JobForge notifies your endpoint when jobs start, succeed or fail. Create a webhook here or
          on the command line:
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Webhooks"
            columns={COLUMNS}
            rows={query.data.items}
            idOf={(row) => row.id}
            onOpen={(row) => void navigate({ to: "/webhooks/$id", params: { id: row.id } })}
          />
        </Panel>
      )}
      {isMaking && <WebhookForm webhook={null} onMade={setMade} onClose={() => setMaking(false)} />}
      {made && (
        <SecretShown
          text={made.secret}
          onClose={() => {
            setMade(null);
            void navigate({ to: "/webhooks/$id", params: { id: made.id } });
          }}
        />
      )}
    </Frame>
  );
}

export function WebhookState({ row }: { row: Webhook }) {
  if (!row.enabled) {
    return (
      <span
        className="inline-flex items-center gap-1.5 align-bottom font-medium text-bad"
        title={row.disabled_reason ?? undefined}
      >
        <CircleX size={14} aria-hidden /> Disabled
      </span>
    );
  }
  if (row.failing_since) {
    return (
      <span className="inline-flex items-center gap-1.5 align-bottom font-medium text-warn">
        <TriangleAlert size={14} aria-hidden /> Failing
      </span>
    );
  }
  return (
    <span className="inline-flex items-center gap-1.5 align-bottom font-medium text-ok">
      <CircleCheck size={14} aria-hidden /> Enabled
    </span>
  );
}
